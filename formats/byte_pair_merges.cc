#include "formats/byte_pair_merges.h"

#include <queue>
#include <tuple>

namespace braid {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A symbol in a doubly linked list of positions; -1 ends the list.
struct Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;
  bool merged_away = false;
};

// Ordered so that a queue yields the lowest rank, then the leftmost position.
struct MergeCandidate {
  uint32_t rank;
  int32_t position;
  int32_t id;
  bool operator<(const MergeCandidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

}  // namespace

void BytePairMerges::Add(int32_t left, int32_t right, int32_t merged) {
  merges_.emplace(PairKey(left, right), Merge{static_cast<uint32_t>(merges_.size()), merged});
}

const BytePairMerges::Merge* BytePairMerges::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairMerges::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  const auto size = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols.push_back({.id = bytes_[static_cast<uint8_t>(piece[static_cast<size_t>(i)])],
                       .previous = i - 1,
                       .next = i + 1 < size ? i + 1 : -1});
  }
  const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::priority_queue<MergeCandidate> queue;
  const auto consider = [&](int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    const Merge* const merge = Find(at(i).id, at(at(i).next).id);
    if (merge != nullptr) queue.push({merge->rank, i, merge->id});
  };
  for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!queue.empty()) {
    const MergeCandidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.position);
    if (left.merged_away || left.next < 0) continue;
    Symbol& right = at(left.next);
    const Merge* const merge = Find(left.id, right.id);
    // An earlier merge may have changed the pair.
    if (merge == nullptr || merge->rank != best.rank) continue;
    left.id = best.id;
    left.next = right.next;
    right.merged_away = true;
    if (left.next >= 0) at(left.next).previous = best.position;
    consider(left.previous);
    consider(best.position);
  }
  for (const Symbol& symbol : symbols) {
    if (!symbol.merged_away) ids->push_back(symbol.id);
  }
}

}  // namespace braid
