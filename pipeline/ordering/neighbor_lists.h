// The neighbour graph as the algorithms of this folder see it.
#ifndef BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_
#define BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_

#include <cstdint>
#include <span>

namespace braid {

// The k nearest neighbours of n documents, as searched: row i holds the
// neighbours of document i. A row may be short (padded with kPadding), in any
// order, list its own document (ignored) or name a neighbour twice (the higher
// score counts). A score that is NaN is below all others.
struct NeighborLists {
  static constexpr uint32_t kPadding = 0xFFFFFFFFu;

  int32_t k = 0;
  std::span<const uint32_t> ids;  // [n, k], each < n or kPadding
  std::span<const float> scores;  // [n, k], higher is more similar
};

// What `document` lists.
struct NeighborRow {
  std::span<const uint32_t> ids;
  std::span<const float> scores;
};

inline NeighborRow RowOf(const NeighborLists& lists, int64_t document) {
  const auto k = static_cast<size_t>(lists.k);
  return {lists.ids.subspan(document * k, k), lists.scores.subspan(document * k, k)};
}

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_
