// Reads Hugging Face directories: stock LLaMA checkpoints, and those written by model_export.h.
// Everything in them is validated before it is used.
#ifndef BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
#define BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "model/language_model.h"

namespace braid {

// Reads config.json and the weights (F32, BF16 or F16). Nothing is allocated before the names and
// shapes of all tensors have been validated. Ignores rotary tables (rotary_emb.inv_freq), and an
// lm_head of a tied model if it equals the embedding. InvalidArgument, naming file and tensor, when
// one is missing, unexpected, of another shape or type, or not finite.
absl::StatusOr<std::unique_ptr<LanguageModel>> ReadHuggingFaceModel(
    const std::filesystem::path& directory);

// Handles an import request. The result is a checkpoint at step 0, from which to evaluate, sample
// or start runs. InvalidArgument also when the tokenizer is missing or its vocabulary differs from
// the model's.
absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
