#include "formats/byte_pair_merges.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>
#include <utility>

namespace braid {
namespace {

constexpr size_t kShortBytes = 48;

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

BytePairMerges::BytePairMerges(const std::array<int32_t, 256>& bytes)
    : bytes_(bytes), of_bytes_(256 * 256) {
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    byte_of_id_.emplace(bytes[byte], static_cast<uint8_t>(byte));
  }
  Grow();
}

inline size_t BytePairMerges::FirstPlace(uint64_t pair) const {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
  return (pair * kMultiplier) >> shift_;
}

// Returns the place of a pair at or after `place`, or the free one where it would be.
size_t BytePairMerges::PlaceFrom(size_t place, uint64_t pair) const {
  while (places_[place].merge.rank != kNoRank && places_[place].pair != pair) {
    place = (place + 1) & (places_.size() - 1);
  }
  return place;
}

void BytePairMerges::Grow() {
  const std::vector<Place> before = std::move(places_);
  places_.assign(std::max<size_t>(1024, 2 * before.size()), {});
  shift_ = 64 - std::countr_zero(places_.size());
  for (const Place& place : before) {
    if (place.merge.rank != kNoRank) places_[PlaceFrom(FirstPlace(place.pair), place.pair)] = place;
  }
}

void BytePairMerges::Add(int32_t left, int32_t right, int32_t merged) {
  const uint64_t pair = PairKey(left, right);
  Place& place = places_[PlaceFrom(FirstPlace(pair), pair)];
  place = {pair, {num_merges_++, merged}};
  const auto a = byte_of_id_.find(left), b = byte_of_id_.find(right);
  if (a != byte_of_id_.end() && b != byte_of_id_.end()) {
    of_bytes_[size_t{a->second} << 8 | b->second] = place.merge;
  }
  if (2 * size_t{num_merges_} >= places_.size()) Grow();
}

inline BytePairMerges::Merge BytePairMerges::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  const size_t first = FirstPlace(pair);
  const Place& place = places_[first];
  if (place.merge.rank == kNoRank || place.pair == pair) return place.merge;
  return places_[PlaceFrom(first, pair)].merge;
}

void BytePairMerges::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  piece.size() <= kShortBytes ? EncodeShort(piece, ids) : EncodeLong(piece, ids);
}

// Searches all pairs for the lowest rank at every step, which for a word is faster than a queue.
void BytePairMerges::EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const {
  std::array<int32_t, kShortBytes> symbols;
  std::array<uint32_t, kShortBytes> ranks;  // rank of the merge with the next symbol
  std::array<int32_t, kShortBytes> merged;
  size_t size = piece.size();
  const auto consider = [&](size_t i, const Merge& merge) {
    ranks[i] = merge.rank;
    merged[i] = merge.id;
  };
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    symbols[i] = bytes_[byte];
    if (i > 0) consider(i - 1, of_bytes_[size_t{static_cast<uint8_t>(piece[i - 1])} << 8 | byte]);
  }
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == kNoRank) break;
    symbols[best] = merged[best];
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    if (best > 0) consider(best - 1, Find(symbols[best - 1], symbols[best]));
    if (best + 1 < size) consider(best, Find(symbols[best], symbols[best + 1]));
  }
  ids->insert(ids->end(), symbols.begin(), symbols.begin() + static_cast<int64_t>(size));
}

void BytePairMerges::EncodeLong(std::string_view piece, std::vector<int32_t>* ids) const {
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
    const Merge merge = Find(at(i).id, at(at(i).next).id);
    if (merge.rank != kNoRank) queue.push({merge.rank, i, merge.id});
  };
  for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!queue.empty()) {
    const MergeCandidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.position);
    if (left.merged_away || left.next < 0) continue;
    Symbol& right = at(left.next);
    // An earlier merge may have changed the pair.
    if (Find(left.id, right.id).rank != best.rank) continue;
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
