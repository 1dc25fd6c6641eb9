#include "evaluation/token_bytes.h"

#include <numeric>
#include <string>
#include <string_view>

#include "formats/word_boundaries.h"

namespace braid {
namespace {

// Scales `bytes` so that they sum to `total`, rounding the running sum.
void Scale(int64_t total, std::span<int32_t> bytes) {
  const int64_t sum = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  if (sum == total || sum == 0) return;
  int64_t before = 0, scaled_before = 0;
  for (int32_t& of_token : bytes) {
    before += of_token;
    const int64_t scaled = before * total / sum;
    of_token = static_cast<int32_t>(scaled - scaled_before);
    scaled_before = scaled;
  }
}

}  // namespace

TokenBytes MeasureTokens(const Tokenizer& tokenizer) {
  TokenBytes table;
  std::vector<bool> spaced;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool marker = id == tokenizer.eos_id() || id == tokenizer.bos_id();
    table.of_token.push_back(marker ? 0 : tokenizer.TextBytes(id));
    spaced.push_back(!marker && tokenizer.Piece(id).starts_with(kSpaceSymbol));
  }
  const std::vector<int32_t> letter = tokenizer.Encode("a");
  if (!letter.empty() && spaced[letter[0]]) table.takes_dummy_space = std::move(spaced);
  return table;
}

void AppendBytes(const TokenBytes& table, std::span<const int32_t> document,
                 std::optional<int64_t> text_bytes, std::vector<int32_t>* bytes) {
  const size_t first = bytes->size();
  for (const int32_t token : document) bytes->push_back(table.of_token[token]);
  if (document.empty()) return;
  // BOS, with which a document may begin, has no bytes; the space is before the text after it.
  size_t start = 0;
  while (start + 1 < document.size() && table.of_token[document[start]] == 0) ++start;
  if (!table.takes_dummy_space.empty() && table.takes_dummy_space[document[start]]) {
    --(*bytes)[first + start];
  }
  if (text_bytes) Scale(*text_bytes, std::span(*bytes).subspan(first));
}

}  // namespace braid
