#include "evaluation/statistics/student_t.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace braid {
namespace student_t_test {

// Integrates the density from 0 by Simpson's rule.
double NaiveCdf(double t, int64_t degrees) {
  const double n = static_cast<double>(degrees);
  const double scale = std::exp(std::lgamma((n + 1) / 2) - std::lgamma(n / 2)) /
                       std::sqrt(n * 3.14159265358979323846);
  const auto density = [&](double x) { return scale * std::pow(1 + x * x / n, -(n + 1) / 2); };
  constexpr int kSteps = 20000;
  const double h = t / kSteps;
  double sum = density(0) + density(t);
  for (int i = 1; i < kSteps; ++i) sum += density(i * h) * (i % 2 == 1 ? 4 : 2);
  return 0.5 + sum * h / 3;
}

TEST(StudentTTest, HasTheTabulatedQuantiles) {
  EXPECT_NEAR(StudentCdf(12.7062, 1), 0.975, 1e-6);
  EXPECT_NEAR(StudentCdf(4.30265, 2), 0.975, 1e-6);
  EXPECT_NEAR(StudentCdf(3.18245, 3), 0.975, 1e-6);
  EXPECT_NEAR(StudentCdf(-2.22814, 10), 0.025, 1e-6);
  EXPECT_NEAR(StudentCdf(1.95996, 1000000), 0.975, 1e-5);
  EXPECT_DOUBLE_EQ(StudentCdf(0, 4), 0.5);
}

TEST(StudentTTest, IsTheIntegralOfTheDensity) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> point(-6, 6);
  for (int64_t degrees = 1; degrees <= 12; ++degrees) {
    for (int i = 0; i < 5; ++i) {
      const double t = point(random);
      EXPECT_NEAR(StudentCdf(t, degrees), NaiveCdf(t, degrees), 1e-9) << t << " " << degrees;
    }
  }
}

}  // namespace student_t_test
}  // namespace braid
