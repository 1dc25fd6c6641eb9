#include "inference/token_text.h"

namespace braid {

TokenText::TokenText(const Tokenizer& tokenizer, std::span<const int32_t> prompt)
    : tokenizer_(tokenizer) {
  for (size_t length = 1; length < prompt.size(); ++length) {
    if (Restart(prompt.last(length))) return;
  }
  tokens_.assign(prompt.begin(), prompt.end());
  stream_ = TextStream(tokenizer_.Decode(tokens_).size());
}

std::string TokenText::Add(int32_t token) {
  tokens_.push_back(token);
  const std::string text = tokenizer_.Decode(tokens_);
  std::string part = stream_.Next(text);
  if (StableLength(text) == text.size()) Restart({&token, 1});
  return part;
}

std::string TokenText::Finish() { return stream_.Finish(tokenizer_.Decode(tokens_)); }

// Starts again after `anchor`; returns false when its text is empty.
bool TokenText::Restart(std::span<const int32_t> anchor) {
  const size_t begin = tokenizer_.Decode(anchor).size();
  if (begin == 0) return false;
  tokens_.assign(anchor.begin(), anchor.end());
  stream_ = TextStream(begin);
  return true;
}

}  // namespace braid
