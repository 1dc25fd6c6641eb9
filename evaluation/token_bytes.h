// How many bytes of a text its tokens stand for, for figures per byte.
#ifndef BRAID_EVALUATION_TOKEN_BYTES_H_
#define BRAID_EVALUATION_TOKEN_BYTES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/tokenizer.h"

namespace braid {

struct TokenBytes {
  // [V] bytes of UTF-8; 0 for <s> and </s>, which stand for no text.
  std::vector<int32_t> of_token;
  // [V] whether a document that begins with the token has one byte less: that of the
  // space which the tokenizer puts before every text. Empty when it puts none.
  std::vector<bool> takes_dummy_space;
};

TokenBytes MeasureTokens(const Tokenizer& tokenizer);

// Appends the bytes of each token of a document, or of the front of one. With
// `text_bytes`, the length of the whole document's text, the sum is exactly that: a
// tokenizer that rewrites text (some made elsewhere do) has its bytes scaled to it.
void AppendBytes(const TokenBytes& table, std::span<const int32_t> document,
                 std::optional<int64_t> text_bytes, std::vector<int32_t>* bytes);

}  // namespace braid

#endif  // BRAID_EVALUATION_TOKEN_BYTES_H_
