#include "trainer/model/matrix_product_peak.h"

#include <gtest/gtest.h>

#include "trainer/model/language_model.h"

namespace braid {
namespace {

TEST(MatrixProductPeakTest, IsARateThatProcessorsHave) {
  SetModelThreads(1);
  const double gflops = MeasureMatrixProductPeak();
  EXPECT_GT(gflops, 0.01);
  EXPECT_LT(gflops, 1e5);
}

}  // namespace
}  // namespace braid
