// Exact inner products of many vectors of small integers.
//
// A processor with VNNI instructions (AVX-512) multiplies and adds 64 pairs of bytes in the time of
// 16 pairs of floats. Scores of rounded vectors are good enough to choose candidates, and because
// they are integers they are equal on every machine.
#ifndef BRAID_RETRIEVAL_BYTE_PRODUCT_H_
#define BRAID_RETRIEVAL_BYTE_PRODUCT_H_

#include <cstdint>

namespace braid {

// The number of vectors in a tile. A tile is interleaved: for each group of four dimensions it has
// the four values of each of the 16 vectors, 64 bytes. Values are stored plus 128, as 1 .. 255.
inline constexpr int64_t kTileVectors = 16;

// The maximum number of queries of one call.
inline constexpr int64_t kByteQueries = 8;

// Computes products[i * stride + j] = (float)<query_i, vector_j> * scales[j] for `num_queries` <=
// kByteQueries queries and 16 * num_tiles vectors.
//
// queries: rows of `padded_d` bytes, -127 .. 127; query_sums[i]: the sum of row i; tiles:
// [num_tiles, padded_d / 4, 16, 4]; scales: [16 num_tiles]; products: rows of `stride` >= 16
// num_tiles. Requires padded_d to be a multiple of 4 and at most 65536.
void ByteProduct(const int8_t* const* queries, const int32_t* query_sums, int64_t num_queries,
                 const uint8_t* tiles, const float* scales, int64_t num_tiles, int64_t padded_d,
                 float* products, int64_t stride);

// Computes the same in portable C++, for tests and other processors.
void ByteProductPortable(const int8_t* const* queries, const int32_t* query_sums,
                         int64_t num_queries, const uint8_t* tiles, const float* scales,
                         int64_t num_tiles, int64_t padded_d, float* products, int64_t stride);

// Returns whether ByteProduct is faster than a product of floats on this processor.
bool HasFastByteProduct();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BYTE_PRODUCT_H_
