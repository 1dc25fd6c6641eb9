#include "evaluation/analysis_frame.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/heldout_windows.h"
#include "formats/packed_dataset.h"

namespace braid {

absl::StatusOr<std::filesystem::path> AnalyzedDataset(const std::string& dataset_dir,
                                                      const ModelPath& path) {
  ASSIGN_OR_RETURN(std::filesystem::path dataset, DatasetOf(dataset_dir, path));
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset));
  if (info.supervised) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset_dir: ", dataset.string(),
                     " has examples for fine-tuning, which do not see each other; expected a "
                     "dataset of text (--data)"));
  }
  RETURN_IF_ERROR(VerifyDataset(dataset));
  RETURN_IF_ERROR(CheckTokenizer(path.checkpoint, dataset));
  return dataset;
}

}  // namespace braid
