#include "retrieval/byte_product.h"

#include <cstring>

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

// kQueries x kTiles accumulators stay in registers over all dimensions.
template <int kQueries, int kTiles>
BRAID_VNNI void ProductOfTiles(const int8_t* const* queries, const int32_t* query_sums,
                               const uint8_t* tiles, const float* scales, int64_t padded_d,
                               float* products, int64_t stride) {
  __m512i sums[kQueries][kTiles];
  for (int i = 0; i < kQueries; ++i) {
    for (int t = 0; t < kTiles; ++t) sums[i][t] = _mm512_set1_epi32(-128 * query_sums[i]);
  }
  for (int64_t at = 0; at < padded_d; at += 4) {
    __m512i vectors[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      vectors[t] = _mm512_loadu_si512(tiles + (t * padded_d + at) * kTileVectors);
    }
    for (int i = 0; i < kQueries; ++i) {
      int32_t four;
      std::memcpy(&four, queries[i] + at, sizeof(four));
      const __m512i query = _mm512_set1_epi32(four);
      for (int t = 0; t < kTiles; ++t) {
        sums[i][t] = _mm512_dpbusd_epi32(sums[i][t], vectors[t], query);
      }
    }
  }
  constexpr __mmask16 kAll = 0xFFFF;  // unmasked, GCC 12 warns about its own header
  for (int i = 0; i < kQueries; ++i) {
    for (int t = 0; t < kTiles; ++t) {
      const __m512 scale = _mm512_loadu_ps(scales + t * kTileVectors);
      _mm512_storeu_ps(products + i * stride + t * kTileVectors,
                       _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sums[i][t]), scale));
    }
  }
}

template <int kQueries>
BRAID_VNNI void ProductOfQueries(const int8_t* const* queries, const int32_t* query_sums,
                                 const uint8_t* tiles, const float* scales, int64_t num_tiles,
                                 int64_t padded_d, float* products, int64_t stride) {
  int64_t t = 0;
  for (; t + 2 <= num_tiles; t += 2) {
    ProductOfTiles<kQueries, 2>(queries, query_sums, tiles + t * padded_d * kTileVectors,
                                scales + t * kTileVectors, padded_d, products + t * kTileVectors,
                                stride);
  }
  if (t == num_tiles) return;
  ProductOfTiles<kQueries, 1>(queries, query_sums, tiles + t * padded_d * kTileVectors,
                              scales + t * kTileVectors, padded_d, products + t * kTileVectors,
                              stride);
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
