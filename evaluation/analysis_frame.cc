#include "evaluation/analysis_frame.h"

#include "base/status_macros.h"
#include "evaluation/heldout_windows.h"
#include "formats/packed_dataset.h"

namespace braid {

absl::StatusOr<std::filesystem::path> AnalyzedDataset(const std::string& dataset_dir,
                                                      const ModelPath& path) {
  ASSIGN_OR_RETURN(std::filesystem::path dataset, DatasetOf(dataset_dir, path));
  RETURN_IF_ERROR(ReadDatasetInfo(dataset).status());
  RETURN_IF_ERROR(VerifyDataset(dataset));
  RETURN_IF_ERROR(CheckTokenizer(path.checkpoint, dataset));
  return dataset;
}

}  // namespace braid
