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
  explicit BytePairMerges(const std::array<int32_t, 256>& bytes) : bytes_(bytes) {}

  // Lets `left` followed by `right` become `merged`; earlier calls take precedence. A pair that was
  // added before is ignored.
  void Add(int32_t left, int32_t right, int32_t merged);

  // Appends the ids of `piece` to `ids`. The adjacent pair that was added first is merged first,
  // the leftmost of equal ones, until no pair can be merged: O(n log n).
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  const Merge* Find(int32_t left, int32_t right) const;

  std::array<int32_t, 256> bytes_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_BYTE_PAIR_MERGES_H_
