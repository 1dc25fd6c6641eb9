// The neighbor graph as input of the ordering algorithms.
#ifndef BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_
#define BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_

#include <cstdint>
#include <span>

namespace braid {

// A view of the k nearest neighbors of n documents, as a search returns them: row i holds the
// neighbors of document i. A row may be padded with kPadding, be in any order, contain its own
// document (which is ignored) and name a neighbor twice (the higher score counts). NaN ranks below
// every other score.
struct NeighborLists {
  static constexpr uint32_t kPadding = 0xFFFFFFFFu;

  int32_t k = 0;
  std::span<const uint32_t> ids;  // [n, k], each < n or kPadding
  std::span<const float> scores;  // [n, k], higher is more similar
};

// The neighbors of one document.
struct NeighborRow {
  std::span<const uint32_t> ids;
  std::span<const float> scores;
};

// Returns the k entries of a document.
inline NeighborRow RowOf(const NeighborLists& lists, int64_t document) {
  const auto k = static_cast<size_t>(lists.k);
  return {lists.ids.subspan(document * k, k), lists.scores.subspan(document * k, k)};
}

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_NEIGHBOR_LISTS_H_
