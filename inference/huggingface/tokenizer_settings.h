// What Hugging Face tokenizers put before a text, and around the turns of a chat.
#ifndef BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
#define BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

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

// Returns the name of the chat template in that tokenizer_config.json, if it is one of
// ChatTemplateNames as braid exports it; "" if there is none or another.
absl::StatusOr<std::string> ChatTemplateOf(const TokenizerFile& file, const Tokenizer& parsed,
                                           std::optional<int32_t> start_id);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
