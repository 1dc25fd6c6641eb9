// The tokenizer functions that task evaluation needs; implemented by Tokenizer, or by a test.
#ifndef BRAID_EVALUATION_TASKS_TEXT_CODEC_H_
#define BRAID_EVALUATION_TASKS_TEXT_CODEC_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct TextCodec {
  // Encodes text without special tokens.
  std::function<std::vector<int32_t>(std::string_view)> encode;
  std::function<std::string(std::span<const int32_t>)> decode;
  // Ends a document.
  int32_t eos_id = 0;
  // Precedes the first token of a prompt; nullopt for none.
  std::optional<int32_t> start_id = std::nullopt;
  // Number of ids that decode accepts; an answer never has others. 0: all of the model's.
  int32_t vocab_size = 0;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TEXT_CODEC_H_
