#include "pipeline/ordering/kept_neighbors.h"

#include <algorithm>

#include "base/check.h"

namespace braid {

KeptNeighbors RestrictNeighbors(const NeighborLists& lists, int64_t num_documents,
                                std::span<const uint32_t> kept) {
  std::vector<uint32_t> position(num_documents, NeighborLists::kPadding);
  for (size_t i = 0; i < kept.size(); ++i) {
    BRAID_CHECK(kept[i] < num_documents && (i == 0 || kept[i - 1] < kept[i])) << "kept " << kept[i];
    position[kept[i]] = static_cast<uint32_t>(i);
  }
  const auto k = static_cast<size_t>(lists.k);
  KeptNeighbors result{lists.k, std::vector<uint32_t>(kept.size() * k, NeighborLists::kPadding),
                       std::vector<float>(kept.size() * k, 0.0f)};
  for (size_t i = 0; i < kept.size(); ++i) {
    size_t out = i * k;
    for (size_t in = kept[i] * k; in < (size_t{kept[i]} + 1) * k; ++in) {
      const uint32_t id = lists.ids[in];
      if (id == NeighborLists::kPadding || position[id] == NeighborLists::kPadding) continue;
      result.ids[out] = position[id];
      result.scores[out++] = lists.scores[in];
    }
  }
  return result;
}

DocumentOrder OriginalNumbers(DocumentOrder order, std::span<const uint32_t> kept) {
  for (uint32_t& document : order.order) {
    BRAID_CHECK(document < kept.size()) << document << " of " << kept.size();
    document = kept[document];
  }
  return order;
}

}  // namespace braid
