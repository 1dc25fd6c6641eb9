// The vectors of inverted lists, rounded to bytes in the layout of ByteProduct.
#ifndef BRAID_RETRIEVAL_BYTE_LISTS_H_
#define BRAID_RETRIEVAL_BYTE_LISTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "retrieval/inverted_lists.h"

namespace braid {

// A rounded vector: x is about q * scale, q = round(x / scale) in -127 .. 127, scale = max |x_i| /
// 127.
struct ByteVector {
  float scale = 0;
  int32_t sum = 0;                // sum over q
  float fourth_powers = 0;        // sum of x_i^4
  float error_fourth_powers = 0;  // sum of (x_i - q_i * scale)^4
};

// Returns the number of dimensions with zero padding, a multiple of 4.
inline int64_t PaddedDimension(int32_t d) { return (d + 3) / 4 * 4; }

// Rounds x [d] into bytes [PaddedDimension(d)].
ByteVector RoundToBytes(const float* x, int32_t d, int8_t* bytes);

// The rounded vectors of all lists. Needs d + 4 bytes per document; lists are padded to 16
// documents. Built by all threads.
class ByteLists {
 public:
  ByteLists(const DocumentVectors& vectors, const InvertedLists& lists);

  int64_t padded_dimension() const { return padded_d_; }
  // Returns the number of tiles of a list, whose documents are in the order of
  // InvertedLists::documents().
  int64_t num_tiles(int64_t list) const { return first_tile_[list + 1] - first_tile_[list]; }
  const uint8_t* tiles(int64_t list) const;
  const float* scales(int64_t list) const;
  // Returns the largest error_fourth_powers of all documents.
  float max_error_fourth_powers() const { return max_error_fourth_powers_; }

 private:
  float FillList(const DocumentVectors& vectors, std::span<const uint32_t> documents, int64_t list);

  int64_t padded_d_;
  std::vector<int64_t> first_tile_;  // [num_lists + 1]
  std::vector<uint8_t> tiles_;
  std::vector<float> scales_;
  float max_error_fourth_powers_ = 0;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BYTE_LISTS_H_
