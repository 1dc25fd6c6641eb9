// The held-out windows of a packed dataset, by domain, for a model that was
// trained on the dataset or is asked about it.
#ifndef BRAID_EVALUATION_HELDOUT_SPLIT_H_
#define BRAID_EVALUATION_HELDOUT_SPLIT_H_

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
  int64_t num_windows;  // to use, from the first
};

// FailedPrecondition: nothing of the dataset was held out.
absl::Status NoHeldoutSplit(const std::filesystem::path& dataset_dir);

// At most `max_windows` (0: all) of each domain. FailedPrecondition when the
// dataset has no held-out split.
absl::StatusOr<std::vector<HeldoutDomain>> OpenDomains(const std::filesystem::path& dataset_dir,
                                                       const DatasetInfo& info,
                                                       int64_t max_windows);

// FailedPrecondition when the dataset's windows are no input of the model.
absl::Status CheckFits(const v1::ModelConfig& model, const DatasetInfo& info,
                       const std::filesystem::path& dataset_dir);

// Whether two tokenizer files hold the same bytes.
bool SameTokenizer(const FileSummary& a, const FileSummary& b);

// FailedPrecondition when the tokenizers of the two are not the same file.
absl::Status CheckTokenizer(const std::filesystem::path& checkpoint,
                            const std::filesystem::path& dataset_dir);

// `dataset_dir` as requested, else the data of the model's run. InvalidArgument
// when there is neither.
absl::StatusOr<std::filesystem::path> DatasetOf(const std::string& dataset_dir,
                                                const ModelPath& path);

}  // namespace braid

#endif  // BRAID_EVALUATION_HELDOUT_SPLIT_H_
