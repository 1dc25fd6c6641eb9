// Reads Hugging Face directories: checkpoints of LLaMA, Mistral, Mixtral, Qwen2 and Qwen3, and
// those written by model_export.h. Everything in them is validated before it is used.
#ifndef BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
#define BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"

namespace braid {

// Handles an import request: converts weights (F32, BF16 or F16), configuration and tokenizer to a
// checkpoint at step 0, from which to evaluate, sample or start runs. Nothing is written before the
// names and shapes of all tensors have been validated; tensors are converted in parts of a few MiB.
// Ignores rotary tables (rotary_emb.inv_freq), and an lm_head of a tied model if it equals the
// embedding. The vocabulary of the model may exceed that of the tokenizer: padded embeddings are
// kept. The model's start_token is the one that the tokenizer's settings add to a text.
// InvalidArgument, naming file and tensor, when one is missing, unexpected, of another shape or
// type, or not finite; also when the tokenizer is missing or has more pieces than the model.
absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MODEL_IMPORT_H_
