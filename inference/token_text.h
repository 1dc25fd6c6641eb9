// The text of a growing sequence of tokens.
#ifndef BRAID_INFERENCE_TOKEN_TEXT_H_
#define BRAID_INFERENCE_TOKEN_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "inference/text_stream.h"

namespace braid {

// What TextStream hands out of Decode(all tokens), without decoding all of them for each: only
// those from the last whole character on.
class TokenText {
 public:
  // Begins behind `prompt`. `tokenizer` outlives this.
  TokenText(const Tokenizer& tokenizer, std::span<const int32_t> prompt);

  // The characters that `token` completes, perhaps none.
  std::string Add(int32_t token);
  // What was held back.
  std::string Finish();

 private:
  bool Restart(std::span<const int32_t> anchor);

  const Tokenizer& tokenizer_;
  // An anchor, whose text has been handed out, and the tokens behind it. Its text is not empty, so
  // that what comes behind it is no beginning, which would lose its space.
  std::vector<int32_t> tokens_;
  TextStream stream_{0};
};

}  // namespace braid

#endif  // BRAID_INFERENCE_TOKEN_TEXT_H_
