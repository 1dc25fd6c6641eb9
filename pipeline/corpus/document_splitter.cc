#include "pipeline/corpus/document_splitter.h"

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"

namespace braid {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Returns whether the line that ends with the newline at `newline` is blank.
bool EndsBlankLine(std::string_view text, size_t newline) {
  size_t i = newline;
  while (i > 0 && IsBlank(text[i - 1])) --i;
  return i > 0 && text[i - 1] == '\n';
}

// Returns the cost of a cut before text[cut], 0 < cut < text.size(); 0 is the best kind.
int CutCost(std::string_view text, size_t cut) {
  if (text[cut - 1] != '\n') return IsBlank(text[cut - 1]) && !IsBlank(text[cut]) ? 4 : 5;
  const bool unindented = !IsBlank(text[cut]) && text[cut] != '\n';
  return (EndsBlankLine(text, cut - 1) ? 0 : 2) + (unindented ? 0 : 1);
}

// Returns the best cut in [first, limit] of a text longer than `limit`: of least cost, then nearest
// to `target`; 0 if no code point starts there.
size_t FindCut(std::string_view text, size_t first, size_t target, size_t limit) {
  size_t best = 0;
  int best_cost = 0;
  for (size_t cut = first; cut <= limit; ++cut) {
    if (IsContinuationByte(text[cut])) continue;
    const int cost = CutCost(text, cut);
    const auto distance = [&](size_t at) { return at > target ? at - target : target - at; };
    if (best == 0 || cost < best_cost || (cost == best_cost && distance(cut) < distance(best))) {
      best = cut;
      best_cost = cost;
    }
  }
  return best;
}

size_t FirstPieceBytes(std::string_view text, size_t limit) {
  const size_t num_pieces = (text.size() + limit - 1) / limit;
  const size_t target = text.size() / num_pieces;
  const size_t cut = FindCut(text, std::max<size_t>(target / 2, 1), target, limit);
  // With a very small limit the range may lie within one code point.
  return cut > 0 ? cut : FindCut(text, 1, target, limit);
}

}  // namespace

std::vector<std::string_view> SplitDocument(std::string_view text, int64_t split_bytes) {
  std::vector<std::string_view> pieces;
  const size_t limit =
      split_bytes <= 0 ? text.size() : static_cast<size_t>(std::max<int64_t>(split_bytes, 4));
  while (text.size() > limit) {
    const size_t size = FirstPieceBytes(text, limit);
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  if (!text.empty()) pieces.push_back(text);
  return pieces;
}

}  // namespace braid
