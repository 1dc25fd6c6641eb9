// Emits a text that grows token by token in whole characters.
#ifndef BRAID_INFERENCE_TEXT_STREAM_H_
#define BRAID_INFERENCE_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace braid {

// Returns the number of leading bytes of UTF-8 `text` that further tokens cannot change. Excludes
// an incomplete code point at the end, and up to three U+FFFD there, which decoders emit for the
// first bytes of a character that arrives byte by byte.
size_t StableLength(std::string_view text);

// Emits each byte of a growing text once.
//
//   TextStream stream(prompt.size());          // the prompt is not repeated
//   out << stream.Next(Decode(tokens));        // after every token
//   out << stream.Finish(Decode(tokens));      // the rest
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
