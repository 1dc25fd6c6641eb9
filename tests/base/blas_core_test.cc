#include "base/blas_core.h"

#include "gtest/gtest.h"

namespace braid {
namespace blas_core_test {

TEST(BlasCoreTest, AsksForKernelsThatUseAllVectorUnits) {
  EXPECT_EQ(BetterBlasCore("Prescott", VectorUnits::kAvx512), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Haswell", VectorUnits::kAvx512), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Zen", VectorUnits::kAvx512), "SkylakeX");
  EXPECT_EQ(BetterBlasCore("Prescott", VectorUnits::kAvx2), "Haswell");
  EXPECT_EQ(BetterBlasCore("Barcelona", VectorUnits::kAvx2), "Haswell");
  EXPECT_EQ(BetterBlasCore("Nehalem", VectorUnits::kAvx), "Sandybridge");
}

TEST(BlasCoreTest, KeepsKernelsThatFit) {
  EXPECT_EQ(BetterBlasCore("SkylakeX", VectorUnits::kAvx512), std::nullopt);
  EXPECT_EQ(BetterBlasCore("Cooperlake", VectorUnits::kAvx512), std::nullopt);
  EXPECT_EQ(BetterBlasCore("Zen", VectorUnits::kAvx2), std::nullopt);
  EXPECT_EQ(BetterBlasCore("Haswell", VectorUnits::kAvx2), std::nullopt);
  EXPECT_EQ(BetterBlasCore("Prescott", VectorUnits::kSse), std::nullopt);
}

TEST(BlasCoreTest, KeepsKernelsThatItDoesNotKnow) {
  EXPECT_EQ(BetterBlasCore("ACoreOfALaterRelease", VectorUnits::kAvx512), std::nullopt);
  EXPECT_EQ(BetterBlasCore("", VectorUnits::kAvx512), std::nullopt);  // not OpenBLAS
}

}  // namespace blas_core_test
}  // namespace braid
