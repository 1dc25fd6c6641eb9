// What Hugging Face tokenizers put before a text, and around the turns of a chat.
#ifndef BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
#define BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_file.h"

namespace braid {

// Returns the start token of the tokenizer `parsed` of `file`, from the first of these that
// decides: add_bos_token in the tokenizer_config.json beside the file; for a tokenizer.json,
// whether its post_processor adds the BOS token; otherwise BOS, as LLaMA's SentencePiece tokenizers
// do. START_WITH_EOS when the BOS token is the EOS token, as in models that braid exported.
absl::StatusOr<v1::StartToken> StartTokenOf(const TokenizerFile& file, const Tokenizer& parsed);

// Returns the text of a tokenizer.json, that of `parsed`, so that other programs put the start
// token of the model before a text, and none for nullopt, whatever its post_processor did.
std::string WithStartToken(std::string_view tokenizer_json, const Tokenizer& parsed,
                           std::optional<int32_t> start_id);

// The chat template of a Hugging Face tokenizer.
struct FoundChatTemplate {
  std::string name;      // one of ChatTemplateNames; empty for none and for an unknown one
  bool unknown = false;  // there is one that braid does not have
};

// Returns the chat template beside the file: that of chat_template.jinja, otherwise that of
// tokenizer_config.json, which may be one text or a list of named ones, of which "default" counts.
// It is known if its text is the one that braid exports.
absl::StatusOr<FoundChatTemplate> ChatTemplateOf(const TokenizerFile& file, const Tokenizer& parsed,
                                                 std::optional<int32_t> start_id);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_TOKENIZER_SETTINGS_H_
