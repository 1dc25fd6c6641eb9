// The tasks of whose examples models were fine-tuned on a share, and the loading of tasks without
// it.
#ifndef BRAID_EVALUATION_TRAINED_SHARES_H_
#define BRAID_EVALUATION_TRAINED_SHARES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluation/tasks/task_examples.h"
#include "runs/model_path.h"

namespace braid {

// The share of a task that was trained on, and the model, as it was named.
struct TrainedShare {
  double share = 0;
  std::string model;
};
using TrainedShares = std::map<std::string, TrainedShare>;  // by the name of the task

// Adds the tasks that a model, the one that it started from or was converted from, and so on, were
// trained on. A model that was imported, and data that no longer exist, have none. Returns which of
// these models was not found; empty if all were. Errors: those of RunDirectory::ReadSpec,
// ReadTaskShares and ReadConversion.
absl::StatusOr<std::string> AddTrainedShares(const std::string& name, const ModelPath& model,
                                             TrainedShares* trained);

// Loads a task as LoadTask does, without the examples of `trained`.
absl::StatusOr<LoadedTask> LoadTaskFor(const TrainedShares& trained, const v1::TaskSpec& spec,
                                       const std::string& data_dir, int num_shots);

// Returns how many examples of a task were left out and why; empty for none.
std::string LeftOutNote(const TrainedShares& trained, const LoadedTask& task);

}  // namespace braid

#endif  // BRAID_EVALUATION_TRAINED_SHARES_H_
