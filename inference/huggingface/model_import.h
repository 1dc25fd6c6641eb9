// Hugging Face directories as models of ours: stock LLaMA checkpoints, and what
// model_export.h writes. Everything in them is checked before it is used.
#ifndef BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
#define BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "model/language_model.h"

namespace braid {

// Reads config.json and the weights (F32, BF16 or F16). Nothing is allocated
// before every tensor's name and shape is known to be right. Rotary tables
// (rotary_emb.inv_freq) are ignored, and an lm_head of a tied model that equals
// the embedding. InvalidArgument, naming file and tensor, for one that is
// missing, unexpected, of another shape or type, or not finite.
absl::StatusOr<std::unique_ptr<LanguageModel>> ReadHuggingFaceModel(
    const std::filesystem::path& directory);

// The whole request. The result is a checkpoint at step 0, to evaluate, sample
// or start runs from. InvalidArgument too when the tokenizer is missing or has
// another vocabulary than the model.
absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
