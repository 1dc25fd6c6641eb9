// Byte pair encoding (Sennrich et al., arXiv 1508.07909) over bytes.
#ifndef BRAID_FORMATS_BYTE_PAIR_MERGES_H_
#define BRAID_FORMATS_BYTE_PAIR_MERGES_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace braid {

// The merges of a vocabulary. Thread-safe once filled.
class BytePairMerges {
 public:
  // `bytes` are the ids of the 256 single bytes.
  explicit BytePairMerges(const std::array<int32_t, 256>& bytes);

  // Lets `left` followed by `right` become `merged`; earlier calls take precedence. A pair that was
  // added before gets the place of the later call, as in the `tokenizers` library.
  void Add(int32_t left, int32_t right, int32_t merged);

  // Appends the ids of `piece` to `ids`. The adjacent pair that was added first is merged first,
  // the leftmost of equal ones, until no pair can be merged: O(n log n), and O(n^2) for short ones.
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNoRank;
    int32_t id = 0;
  };
  // A place of the hash table; free if the merge has no rank.
  struct Place {
    uint64_t pair = 0;
    Merge merge;
  };
  size_t FirstPlace(uint64_t pair) const;
  size_t PlaceFrom(size_t place, uint64_t pair) const;
  Merge Find(int32_t left, int32_t right) const;
  void Grow();
  void EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const;
  void EncodeLong(std::string_view piece, std::vector<int32_t>* ids) const;

  std::array<int32_t, 256> bytes_;
  absl::flat_hash_map<int32_t, uint8_t> byte_of_id_;
  std::vector<Merge> of_bytes_;  // [256, 256], by bytes
  // A hash table with linear probing, whose size is a power of two and which is at most half full:
  // most pairs that are looked up have no merge, and one access shows it.
  std::vector<Place> places_;
  int shift_ = 0;  // 64 - log2 of the size
  uint32_t num_merges_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_BYTE_PAIR_MERGES_H_
