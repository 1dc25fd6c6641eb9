#include "retrieval/byte_product.h"

#include <cstddef>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace braid {

void ByteProductPortable(const int8_t* const* queries, const int32_t* query_sums,
                         int64_t num_queries, const uint8_t* tiles, const float* scales,
                         int64_t num_tiles, int64_t padded_d, float* products, int64_t stride) {
  for (int64_t i = 0; i < num_queries; ++i) {
    for (int64_t j = 0; j < num_tiles * kTileVectors; ++j) {
      const uint8_t* vector =
          tiles + j / kTileVectors * padded_d * kTileVectors + j % kTileVectors * 4;
      int32_t sum = 0;
      for (int64_t at = 0; at < padded_d; ++at) {
        sum += queries[i][at] * vector[at / 4 * 4 * kTileVectors + at % 4];
      }
      products[i * stride + j] = static_cast<float>(sum - 128 * query_sums[i]) * scales[j];
    }
  }
}

#if defined(__x86_64__)
namespace {

#define BRAID_VNNI __attribute__((target("avx512f,avx512vnni")))

// Returns four bytes, repeated 16 times.
BRAID_VNNI inline __m512i RepeatFour(const int8_t* bytes) {
  int32_t four;
  std::memcpy(&four, bytes, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Multiplies kTiles tiles with sizeof...(kSum) / kTiles queries.
//
// The instruction vpdpbusd multiplies 64 unsigned by 64 signed bytes and adds each group of four
// products to one of 16 32-bit sums. A tile stores four dimensions of 16 vectors as 64 bytes, so
// one instruction adds four dimensions of a query, repeated 16 times, to the products with all 16
// vectors. Vectors are stored plus 128 because one operand must be unsigned; to compensate, the
// sums start at minus 128 times query_sum. Arithmetic is modulo 2^32, so intermediate sums may
// wrap around; the final ones fit because |sum| <= 65536 * 127 * 127 < 2^31.
//
// All sums stay in registers over all dimensions. They are indexed by a parameter pack because GCC
// keeps an array in memory if it is indexed by loops.
template <int kTiles, size_t... kSum>
BRAID_VNNI void ProductOfTiles(std::index_sequence<kSum...>, const int8_t* const* queries,
                               const int32_t* query_sums, const uint8_t* tiles, const float* scales,
                               int64_t padded_d, float* products, int64_t stride) {
  __m512i sums[] = {_mm512_set1_epi32(-128 * query_sums[kSum / kTiles])...};
  for (int64_t at = 0; at < padded_d; at += 4) {
    ((sums[kSum] = _mm512_dpbusd_epi32(
          sums[kSum], _mm512_loadu_si512(tiles + (kSum % kTiles * padded_d + at) * kTileVectors),
          RepeatFour(queries[kSum / kTiles] + at))),
     ...);
  }
  constexpr __mmask16 kAll = 0xFFFF;  // the unmasked form makes GCC 12 warn about its own header
  (_mm512_storeu_ps(products + kSum / kTiles * stride + kSum % kTiles * kTileVectors,
                    _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sums[kSum]),
                                  _mm512_loadu_ps(scales + kSum % kTiles * kTileVectors))),
   ...);
}

// Multiplies all tiles with kQueries queries, three tiles at a time: 8 queries by 3 tiles need 24
// of the 32 vector registers for sums, and every loaded tile is used for all queries.
template <int kQueries>
BRAID_VNNI void ProductOfQueries(const int8_t* const* queries, const int32_t* query_sums,
                                 const uint8_t* tiles, const float* scales, int64_t num_tiles,
                                 int64_t padded_d, float* products, int64_t stride) {
  int64_t t = 0;
  const auto tile = [&](int64_t at) { return tiles + at * padded_d * kTileVectors; };
  for (; t + 3 <= num_tiles; t += 3) {
    ProductOfTiles<3>(std::make_index_sequence<3 * kQueries>(), queries, query_sums, tile(t),
                      scales + t * kTileVectors, padded_d, products + t * kTileVectors, stride);
  }
  for (; t < num_tiles; ++t) {
    ProductOfTiles<1>(std::make_index_sequence<kQueries>(), queries, query_sums, tile(t),
                      scales + t * kTileVectors, padded_d, products + t * kTileVectors, stride);
  }
}

}  // namespace

bool HasFastByteProduct() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

void ByteProduct(const int8_t* const* queries, const int32_t* query_sums, int64_t num_queries,
                 const uint8_t* tiles, const float* scales, int64_t num_tiles, int64_t padded_d,
                 float* products, int64_t stride) {
  static const bool fast = HasFastByteProduct();
  if (!fast) {
    return ByteProductPortable(queries, query_sums, num_queries, tiles, scales, num_tiles, padded_d,
                               products, stride);
  }
  int64_t i = 0;
  if (num_queries == kByteQueries) {
    return ProductOfQueries<kByteQueries>(queries, query_sums, tiles, scales, num_tiles, padded_d,
                                          products, stride);
  }
  for (; i + 4 <= num_queries; i += 4) {
    ProductOfQueries<4>(queries + i, query_sums + i, tiles, scales, num_tiles, padded_d,
                        products + i * stride, stride);
  }
  for (; i < num_queries; ++i) {
    ProductOfQueries<1>(queries + i, query_sums + i, tiles, scales, num_tiles, padded_d,
                        products + i * stride, stride);
  }
}

#else

bool HasFastByteProduct() { return false; }

void ByteProduct(const int8_t* const* queries, const int32_t* query_sums, int64_t num_queries,
                 const uint8_t* tiles, const float* scales, int64_t num_tiles, int64_t padded_d,
                 float* products, int64_t stride) {
  ByteProductPortable(queries, query_sums, num_queries, tiles, scales, num_tiles, padded_d,
                      products, stride);
}

#endif

}  // namespace braid
