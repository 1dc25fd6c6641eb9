#include "retrieval/vector_index.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace braid {
namespace {

struct Hit {
  int64_t id;
  float score;
};

bool ComesFirst(const Hit& a, const Hit& b) {
  if ((a.id < 0) != (b.id < 0)) return b.id < 0;
  if (a.score != b.score) return a.score > b.score;
  return a.id < b.id;
}

}  // namespace

void SortSearchOutput(int32_t k, SearchOutput output) {
  std::vector<Hit> row(static_cast<size_t>(k));
  for (size_t start = 0; start < output.ids.size(); start += row.size()) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool missing = output.ids[start + i] < 0;
      row[i] = {output.ids[start + i], missing ? 0 : output.scores[start + i]};
    }
    std::sort(row.begin(), row.end(), ComesFirst);
    for (size_t i = 0; i < row.size(); ++i) {
      output.ids[start + i] = row[i].id;
      output.scores[start + i] = row[i].score;
    }
  }
}

}  // namespace braid
