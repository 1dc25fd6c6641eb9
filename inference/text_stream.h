// Text that grows token by token, handed out in whole characters.
#ifndef BRAID_INFERENCE_TEXT_STREAM_H_
#define BRAID_INFERENCE_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace braid {

// Bytes at the front of UTF-8 `text` that more tokens cannot change: without a
// code point cut short at the end, and without up to three U+FFFD there, which
// is what a decoder makes of the first bytes of a character given byte by byte.
size_t StableLength(std::string_view text);

// Hands out each byte of a growing text once.
//
//   TextStream stream(prompt.size());          // the prompt is not repeated
//   out << stream.Next(Decode(tokens));        // after every token
//   out << stream.Finish(Decode(tokens));      // what was held back
class TextStream {
 public:
  explicit TextStream(size_t begin) : begin_(begin) {}
  std::string Next(std::string_view text) { return Take(text, StableLength(text)); }
  std::string Finish(std::string_view text) { return Take(text, text.size()); }

 private:
  std::string Take(std::string_view text, size_t end);

  size_t begin_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_TEXT_STREAM_H_
