// Writes models as Hugging Face directories: a stock LLaMA, Qwen2 or Qwen3 when dense, a stock
// Mixtral when it is one (IsMixtral), otherwise braid's own format in the same files.
// docs/formats/export.md describes both.
//
//   DIR/config.json, generation_config.json
//   DIR/model.safetensors          or shards with model.safetensors.index.json
//   DIR/modeling_braid.py          for models with experts
//   DIR/tokenizer.model (or tokenizer.json), tokenizer_config.json, special_tokens_map.json
#ifndef BRAID_INFERENCE_HUGGINGFACE_MODEL_EXPORT_H_
#define BRAID_INFERENCE_HUGGINGFACE_MODEL_EXPORT_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "formats/safetensors_header.h"
#include "model/language_model.h"

namespace braid {

inline constexpr int64_t kDefaultShardBytes = 5'000'000'000;

struct ExportOptions {
  DType dtype = DType::kF32;  // or kBF16, kF16
  int64_t max_shard_bytes = kDefaultShardBytes;
  // Tokens of a prompt: exports the dense model that results from the routing decision on it.
  std::optional<std::vector<int32_t>> bake_prompt = {};
  // Replaces an existing export at `output`.
  bool force = false;
  // Receives the complete files before they are published, which its error prevents; may add to the
  // response.
  std::function<absl::Status(const std::filesystem::path& directory, v1::ExportResponse*)> check =
      nullptr;
};

// Writes `output`, completely or not at all; the same arguments give the same bytes. `tokenizer` is
// the file to copy, with at most as many pieces as the model has embeddings. The response lists the
// files.
absl::StatusOr<v1::ExportResponse> ExportModel(LanguageModel& model,
                                               const std::filesystem::path& tokenizer,
                                               const ExportOptions& options,
                                               const std::filesystem::path& output);

// Handles an export request; `request.model` is a run or checkpoint directory. Weights that were
// imported keep their element type unless the request names another. Adapters are merged, which is
// compared with the model that has them before anything is published (MergeCheck), except in baked
// models. InvalidArgument names the field that is out of range; also the errors of FindModel.
absl::StatusOr<v1::ExportResponse> Export(const v1::ExportRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MODEL_EXPORT_H_
