// Resolution of the datasets of a run: one, or a mixture of several.
#ifndef BRAID_RUNS_MIXTURE_SPEC_H_
#define BRAID_RUNS_MIXTURE_SPEC_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "formats/packed_dataset.h"
#include "runs/mixture_schedule.h"
#include "runs/training_length.h"

namespace braid {

// Makes the paths of the datasets absolute and reads their descriptions, in the order of
// `datasets`, or that of dataset_dir alone. For a mixture, sets dataset_dir to the first dataset.
// InvalidArgument names the dataset that has no instances, occurs twice, or has another tokenizer
// or sequence length than the first; errors of ReadDatasetInfo name it too.
absl::StatusOr<std::vector<DatasetInfo>> ReadDatasets(v1::RunSpec* spec);

// Returns the description of all datasets together: they differ in their instances only. Requires
// at least one.
DatasetInfo CombinedInfo(std::span<const DatasetInfo> datasets);

// Replaces tokens and epochs of the datasets by shares and num_steps. Does nothing without a
// mixture. InvalidArgument for shares that are negative, all 0 or do not sum to 1, and for units
// that cannot be combined.
absl::Status FillMixture(const StepSize& size, std::span<const DatasetInfo> infos,
                         v1::RunSpec* spec);

// Resolves the phases and checks that no dataset is exhausted. Requires num_steps. InvalidArgument
// names the dataset, the step at which max_repetitions is reached, and the remedies.
absl::Status FillSharePhases(const StepSize& size, std::span<const DatasetInfo> infos,
                             v1::RunSpec* spec);

// Returns the data order of a resolved run, also of a run on one dataset.
MixtureSchedule ScheduleOfMixture(const v1::RunSpec& resolved, std::span<const DatasetInfo> infos);

// Returns the key of the data of a resolved run: that of its dataset, or a hash of the keys and the
// first shares of a mixture. Phases are left out: a branch may end before some of them.
std::string DataKey(const v1::RunSpec& resolved, std::span<const DatasetInfo> infos);

}  // namespace braid

#endif  // BRAID_RUNS_MIXTURE_SPEC_H_
