#include "base/nearest_word.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "absl/strings/str_join.h"

namespace braid {
namespace {

int64_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* nearest = nullptr;
  int64_t best = std::max<int64_t>(word.size() / 2, 1) + 1;
  for (const std::string& candidate : candidates) {
    const int64_t distance = EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : *nearest;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestWord(word, candidates);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

std::string DidYouMeanOrKnown(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kListBytes = 160;
  const std::string nearest = DidYouMean(word, candidates);
  if (!nearest.empty()) return nearest;
  std::string list = absl::StrJoin(candidates, ", ");
  if (list.size() > kListBytes) {
    list.resize(list.rfind(", ", kListBytes));
    list += ", ...";
  }
  return "; known: " + list;
}

}  // namespace braid
