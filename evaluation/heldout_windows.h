// Opens the held-out windows of a packed dataset, by domain, and checks that they fit a model.
#ifndef BRAID_EVALUATION_HELDOUT_WINDOWS_H_
#define BRAID_EVALUATION_HELDOUT_WINDOWS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "braid/v1/model.pb.h"
#include "formats/packed_dataset.h"
#include "runs/model_path.h"
#include "trainer/data_loader.h"

namespace braid {

struct HeldoutDomain {
  std::string name;
  DataLoader windows;
  int64_t num_windows;  // number of windows to use, from the first
};

// Returns FailedPrecondition: the dataset has no held-out split.
absl::Status NoHeldoutSplit(const std::filesystem::path& dataset_dir);

// Opens at most `max_windows` (0: all) windows of each domain. FailedPrecondition when the dataset
// has no held-out split.
absl::StatusOr<std::vector<HeldoutDomain>> OpenDomains(const std::filesystem::path& dataset_dir,
                                                       const DatasetInfo& info,
                                                       int64_t max_windows);

// Returns FailedPrecondition when the dataset's windows do not fit the model's inputs.
absl::Status CheckFits(const v1::ModelConfig& model, const DatasetInfo& info,
                       const std::filesystem::path& dataset_dir);

// Returns whether two tokenizer files hold the same bytes.
bool SameTokenizer(const FileSummary& a, const FileSummary& b);

// Returns FailedPrecondition when checkpoint and dataset have different tokenizer files.
absl::Status CheckTokenizer(const std::filesystem::path& checkpoint,
                            const std::filesystem::path& dataset_dir);

// Returns `dataset_dir` as requested, or else the dataset of the model's run. InvalidArgument when
// there is neither.
absl::StatusOr<std::filesystem::path> DatasetOf(const std::string& dataset_dir,
                                                const ModelPath& path);

}  // namespace braid

#endif  // BRAID_EVALUATION_HELDOUT_WINDOWS_H_
