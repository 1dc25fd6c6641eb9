// Text to tokens and back, as the evaluation of tasks needs it; Tokenizer's, or a test's own.
#ifndef BRAID_EVALUATION_TASKS_TEXT_CODEC_H_
#define BRAID_EVALUATION_TASKS_TEXT_CODEC_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct TextCodec {
  // Without special tokens.
  std::function<std::vector<int32_t>(std::string_view)> encode;
  std::function<std::string(std::span<const int32_t>)> decode;
  // Ends a document, hence stands before one.
  int32_t eos_id = 0;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TEXT_CODEC_H_
