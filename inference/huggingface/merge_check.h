// Compares an export in which adapters are merged into the weights with the model that has them.
//
//   ASSIGN_OR_RETURN(const MergeCheck check, MergeCheck::Create(model, DType::kF32));
//   ... write the files to `directory` ...
//   RETURN_IF_ERROR(check.Compare(directory, &response));
#ifndef BRAID_INFERENCE_HUGGINGFACE_MERGE_CHECK_H_
#define BRAID_INFERENCE_HUGGINGFACE_MERGE_CHECK_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/model.pb.h"
#include "formats/safetensors_header.h"
#include "runs/model_path.h"

namespace braid {

class MergeCheck {
 public:
  // Computes the logits of fixed tokens with the adapters of a checkpoint, which has some, beside
  // its weights. Tokens that choose experts use all of them. `dtype` is that of the files.
  static absl::StatusOr<MergeCheck> Create(const ModelPath& path, DType dtype);

  // Reads the model in `directory`, computes its logits, and sets num_merged_tensors, the matrices
  // that differ from those of the base after rounding to `dtype`, and max_logit_difference.
  // DataLoss when the difference is above bound() or not a number, and for files that cannot be
  // read back.
  absl::Status Compare(const std::filesystem::path& directory, v1::ExportResponse* response) const;

  // The largest difference of a logit, as a share of the range of the logits: 1e-4 in F32, 0.01 in
  // F16 and 0.05 in BF16, whose rounding changes every weight. Infinite where 16 bits may change
  // which expert or layer is chosen: with expert choice and mixed layers.
  double bound() const;

 private:
  MergeCheck(v1::ModelConfig config, DType dtype) : config_(std::move(config)), dtype_(dtype) {}

  v1::ModelConfig config_;
  DType dtype_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
  std::map<std::string, uint32_t> adapted_;  // checksums of the base's rounded matrices, by name
};

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MERGE_CHECK_H_
