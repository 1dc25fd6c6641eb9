// Inner products of vectors of small integers, many at a time, exactly.
//
// A processor with VNNI instructions (AVX-512) multiplies and adds 64 pairs of bytes in
// the time of 16 pairs of floats. Scores of rounded vectors are good enough to choose
// candidates, and being integers they are the same on every machine.
#ifndef BRAID_RETRIEVAL_BYTE_PRODUCT_H_
#define BRAID_RETRIEVAL_BYTE_PRODUCT_H_

#include <cstdint>

namespace braid {

// Vectors of a tile stand interleaved: for each group of four dimensions the four
// values of each of 16 vectors, 64 bytes. Values are stored plus 128, as 1 .. 255.
inline constexpr int64_t kTileVectors = 16;

// Queries that ByteProduct takes at once, at most.
inline constexpr int64_t kByteQueries = 8;

// products[i * stride + j] = (float)<query_i, vector_j> * scales[j]
// for `num_queries` <= kByteQueries queries and 16 * num_tiles vectors.
// queries: rows of `padded_d` bytes, -127 .. 127; query_sums[i] their sum; tiles:
// [num_tiles, padded_d / 4, 16, 4]; scales: [16 num_tiles]; products: rows of `stride`
// >= 16 num_tiles. Requires: padded_d is a multiple of 4, at most 65536.
void ByteProduct(const int8_t* const* queries, const int32_t* query_sums, int64_t num_queries,
                 const uint8_t* tiles, const float* scales, int64_t num_tiles, int64_t padded_d,
                 float* products, int64_t stride);

// The same in plain C++, for tests and other processors.
void ByteProductPortable(const int8_t* const* queries, const int32_t* query_sums,
                         int64_t num_queries, const uint8_t* tiles, const float* scales,
                         int64_t num_tiles, int64_t padded_d, float* products, int64_t stride);

// Whether this processor makes ByteProduct faster than a product of floats.
bool HasFastByteProduct();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BYTE_PRODUCT_H_
