#include "retrieval/byte_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "retrieval/byte_lists.h"

namespace braid {
namespace byte_product_test {

TEST(ByteProductTest, EqualsThePortableOneForEveryShape) {
  std::mt19937 random(1);
  for (int64_t d : {4, 8, 64, 260}) {
    for (int64_t num_tiles : {1, 2, 5}) {
      for (int64_t m = 1; m <= kByteQueries; ++m) {
        std::vector<int8_t> queries(m * d);
        std::vector<uint8_t> tiles(num_tiles * kTileVectors * d);
        for (int8_t& x : queries) x = static_cast<int8_t>(random() % 255 - 127);
        for (uint8_t& x : tiles) x = static_cast<uint8_t>(1 + random() % 255);
        std::vector<const int8_t*> rows;
        std::vector<int32_t> sums(m, 0);
        for (int64_t i = 0; i < m; ++i) {
          rows.push_back(queries.data() + i * d);
          for (int64_t j = 0; j < d; ++j) sums[i] += queries[i * d + j];
        }
        std::vector<float> scales(num_tiles * kTileVectors, 0.25f);
        std::vector<float> fast(m * num_tiles * kTileVectors), slow(fast.size());
        const int64_t stride = num_tiles * kTileVectors;
        ByteProduct(rows.data(), sums.data(), m, tiles.data(), scales.data(), num_tiles, d,
                    fast.data(), stride);
        ByteProductPortable(rows.data(), sums.data(), m, tiles.data(), scales.data(), num_tiles, d,
                            slow.data(), stride);
        ASSERT_EQ(fast, slow) << d << ", " << num_tiles << " tiles, " << m << " queries";
      }
    }
  }
}

TEST(ByteListsTest, KeepsEveryVectorWithinHalfAStep) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int32_t d : {1, 3, 4, 61}) {
    std::vector<float> x(d);
    for (float& value : x) value = normal(random);
    std::vector<int8_t> bytes(PaddedDimension(d), 77);
    const ByteVector rounded = RoundToBytes(x.data(), d, bytes.data());
    int32_t sum = 0;
    for (int32_t i = 0; i < d; ++i) {
      EXPECT_LE(std::abs(x[i] - bytes[i] * rounded.scale), rounded.scale * 0.5001f);
      sum += bytes[i];
    }
    EXPECT_EQ(rounded.sum, sum);
    for (int64_t i = d; i < PaddedDimension(d); ++i) EXPECT_EQ(bytes[i], 0);
  }
}

TEST(ByteListsTest, RoundsZeroToZero) {
  const std::vector<float> zero(5, 0.0f);
  std::vector<int8_t> bytes(8, 1);
  const ByteVector rounded = RoundToBytes(zero.data(), 5, bytes.data());
  EXPECT_EQ(rounded.scale, 0);
  EXPECT_EQ(bytes, std::vector<int8_t>(8, 0));
}

}  // namespace byte_product_test
}  // namespace braid
