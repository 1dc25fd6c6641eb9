// Chat templates as Jinja, the language of `chat_template` in tokenizer_config.json.
#ifndef BRAID_INFERENCE_HUGGINGFACE_CHAT_JINJA_H_
#define BRAID_INFERENCE_HUGGINGFACE_CHAT_JINJA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "formats/chat_template.h"
#include "formats/tokenizer.h"

namespace braid {

// Returns the template for a tokenizer. apply_chat_template of transformers, for messages in which
// users and the assistant alternate after at most one system message, gives the tokens of
// EncodeChat, and with add_generation_prompt those that precede an answer. In texts of messages,
// unlike here, that program makes control tokens of what looks like them. `writes_spaces`: it puts
// no space before a text that follows a control token, so the template has to, for a tokenizer that
// does. With a tokenizer.json it puts one there, and LlamaTokenizer only at the beginning.
std::string ChatJinja(const ChatTemplate& chat, const Tokenizer& tokenizer,
                      std::optional<int32_t> start_id, bool writes_spaces);

// Returns the name of the template whose ChatJinja equals `jinja`; nullopt if none does.
std::optional<std::string> ChatTemplateOfJinja(const std::string& jinja, const Tokenizer& tokenizer,
                                               std::optional<int32_t> start_id);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_CHAT_JINJA_H_
