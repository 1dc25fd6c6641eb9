// Which token Hugging Face tokenizers put before a text.
#ifndef BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
#define BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_json.h"

namespace braid {

// Returns the start token of the tokenizer `parsed` of `file`, from the first of these that
// decides: add_bos_token in the tokenizer_config.json beside the file; for a tokenizer.json,
// whether its post_processor adds the BOS token; otherwise BOS, as LLaMA's SentencePiece tokenizers
// do. START_WITH_EOS when the BOS token is the EOS token, as in models that braid exported.
absl::StatusOr<v1::StartToken> StartTokenOf(const TokenizerFile& file, const Tokenizer& parsed);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
