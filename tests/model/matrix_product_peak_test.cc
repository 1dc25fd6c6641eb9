#include "model/matrix_product_peak.h"

#include <gtest/gtest.h>

#include "model/language_model.h"

namespace braid {
namespace matrix_product_peak_test {

TEST(MatrixProductPeakTest, IsAPlausibleRate) {
  SetModelThreads(1);
  const double gflops = MeasureMatrixProductPeak();
  EXPECT_GT(gflops, 0.01);
  EXPECT_LT(gflops, 1e5);
}

}  // namespace matrix_product_peak_test
}  // namespace braid
