#include "base/blas_core.h"

#include <array>
#include <cstdlib>
#include <iostream>

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

// Run by the test below, in a process that ReexecForBlas started.
TEST(BlasCoreTest, DISABLED_PrintsItsEnvironment) {
  std::cerr << "wait " << std::getenv("OMP_WAIT_POLICY") << ", timeout "
            << std::getenv("OPENBLAS_THREAD_TIMEOUT") << "\n";
  std::_Exit(0);
}

TEST(BlasCoreTest, ReexecutionSetsWhatTheUserDidNot) {
  const auto execute = [] {
    unsetenv("BRAID_BLAS_CHOSEN");
    unsetenv("OMP_WAIT_POLICY");
    setenv("OPENBLAS_THREAD_TIMEOUT", "9", 1);
    std::array<char*, 4> arguments = {
        const_cast<char*>("again"), const_cast<char*>("--gtest_also_run_disabled_tests"),
        const_cast<char*>("--gtest_filter=*.DISABLED_PrintsItsEnvironment"), nullptr};
    ReexecForBlas(arguments.data());
  };
  EXPECT_EXIT(execute(), testing::ExitedWithCode(0), "wait passive, timeout 9");
}

}  // namespace blas_core_test
}  // namespace braid
