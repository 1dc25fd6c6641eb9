// Decodes a growing sequence of tokens to text.
#ifndef BRAID_INFERENCE_TOKEN_TEXT_H_
#define BRAID_INFERENCE_TOKEN_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "inference/text_stream.h"

namespace braid {

// Returns what TextStream would emit for Decode(all tokens), but decodes only the tokens since the
// last whole character each time.
class TokenText {
 public:
  // Starts after `prompt`. `tokenizer` must outlive this.
  TokenText(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // Returns the characters completed by `token`, possibly none.
  std::string Add(int32_t token);
  // Returns the characters held back.
  std::string Finish();

 private:
  bool Restart(std::span<const int32_t> anchor);

  const Tokenizer& tokenizer_;
  // An anchor whose text has been emitted, followed by the newer tokens. The anchor's text is not
  // empty: tokenizers drop the leading space of a text, so a token must never be decoded as the
  // first.
  std::vector<int32_t> tokens_;
  TextStream stream_{0};
};

}  // namespace braid

#endif  // BRAID_INFERENCE_TOKEN_TEXT_H_
