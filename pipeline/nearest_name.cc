#include "pipeline/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace braid {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = i - 1;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> NearestName(std::string_view wanted,
                                       std::span<const std::string> names) {
  const auto distance = [&](const std::string& name) { return EditDistance(wanted, name); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  if (nearest == names.end()) return std::nullopt;
  if (2 * distance(*nearest) > std::max(wanted.size(), nearest->size())) return std::nullopt;
  return *nearest;
}

}  // namespace braid
