// The number of text bytes per token, for figures per byte.
#ifndef BRAID_EVALUATION_TOKEN_BYTES_H_
#define BRAID_EVALUATION_TOKEN_BYTES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/tokenizer.h"

namespace braid {

struct TokenBytes {
  // [V] bytes of UTF-8; 0 for special tokens such as <s> and </s>, which have no text.
  std::vector<int32_t> of_token;
  // [V] whether a document that begins with this token, maybe after <s>, has one byte less: the
  // space that the tokenizer adds before every text. Empty when it adds none.
  std::vector<bool> takes_dummy_space;
};

TokenBytes MeasureTokens(const Tokenizer& tokenizer);

// Appends the bytes of each token of a document, or of the beginning of one. If `text_bytes`, the
// length of the whole document's text, is given, bytes are scaled so that their sum equals it: some
// imported tokenizers rewrite text.
void AppendBytes(const TokenBytes& table, std::span<const int32_t> document,
                 std::optional<int64_t> text_bytes, std::vector<int32_t>* bytes);

}  // namespace braid

#endif  // BRAID_EVALUATION_TOKEN_BYTES_H_
