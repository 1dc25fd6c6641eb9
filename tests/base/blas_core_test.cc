#include "base/blas_core.h"

#include "gtest/gtest.h"

namespace braid {
namespace blas_core_test {

TEST(BlasCoreTest, ReplacesTheFallbackByKernelsForTheProcessor) {
  EXPECT_EQ(BetterBlasCore("Prescott", {.avx2 = true, .avx512 = true}), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Prescott", {.avx2 = true, .avx512 = false}), "Haswell");
}

TEST(BlasCoreTest, KeepsAGoodChoice) {
  EXPECT_EQ(BetterBlasCore("Haswell", {.avx2 = true, .avx512 = true}), std::nullopt);
  EXPECT_EQ(BetterBlasCore("Prescott", {}), std::nullopt);
  EXPECT_EQ(BetterBlasCore("", {.avx2 = true, .avx512 = true}), std::nullopt);
}

}  // namespace blas_core_test
}  // namespace braid
