// Products of small matrices against their definition.
#include "model/kernels/small_gemm.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace small_gemm_test {

class SmallGemmTest : public testing::Test {
 protected:
  std::vector<float> Random(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  // Compares a product with its definition, and what is between its rows with what was there.
  void ExpectDefinition(const SmallGemmShape& s, bool generate) {
    const std::vector<float> left = Random((s.left_transposed ? s.depth : s.rows) * s.left_stride);
    const std::vector<float> right = Random(s.depth * s.right_stride);
    const std::vector<float> before = Random(s.rows * s.out_stride);
    std::vector<float> out = before;
    SmallGemm(s, generate)(left.data(), right.data(), out.data());
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.out_stride; ++c) {
        const int64_t place = r * s.out_stride + c;
        double expected = c >= s.columns || s.accumulate ? before[place] : 0;
        for (int64_t d = 0; d < s.depth && c < s.columns; ++d) {
          const int64_t from = s.left_transposed ? d * s.left_stride + r : r * s.left_stride + d;
          expected += double{left[from]} * right[d * s.right_stride + c];
        }
        ASSERT_NEAR(out[place], expected, 1e-3)
            << s.rows << " x " << s.columns << " x " << s.depth << " at " << r << " " << c;
      }
    }
  }

  // Every kind of product; the deepest ones are cut into slices.
  void ExpectDefinitions(bool generate) {
    for (const int64_t depth : {1, 16, 300, 1000}) {
      for (const bool transposed : {false, true}) {
        for (const bool accumulate : {false, true}) {
          ExpectDefinition({.rows = 37,
                            .columns = 21,
                            .depth = depth,
                            .left_stride = (transposed ? 37 : depth) + 3,
                            .right_stride = 23,
                            .out_stride = 26,
                            .left_transposed = transposed,
                            .accumulate = accumulate},
                           generate);
        }
      }
    }
  }

  std::mt19937 random_{5};
};

TEST_F(SmallGemmTest, GeneratedKernelsFollowTheDefinition) {
  if (!HasSmallGemm()) GTEST_SKIP() << "no kernels for this CPU";
  ExpectDefinitions(/*generate=*/true);
}

TEST_F(SmallGemmTest, ShapesWithoutKernelFollowTheDefinition) {
  ExpectDefinitions(/*generate=*/false);
}

}  // namespace small_gemm_test
}  // namespace braid
