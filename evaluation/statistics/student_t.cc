#include "evaluation/statistics/student_t.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace braid {
namespace {

// Returns 1 + a c^2 + a b c^4 + ..., the sum in both formulas, with factors (first)/(first + 1),
// (first + 2)/(first + 3), ...
double CosineSum(double cosine_squared, int64_t first, int64_t num_terms) {
  double term = 1;
  double sum = num_terms > 0 ? 1 : 0;
  for (int64_t i = 1; i < num_terms; ++i) {
    const double numerator = static_cast<double>(first + 2 * (i - 1));
    term *= cosine_squared * numerator / (numerator + 1);
    sum += term;
  }
  return sum;
}

// Returns P(|T| <= t) for t >= 0.
double CentralProbability(double t, int64_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double sine = std::sin(angle);
  const double cosine = std::cos(angle);
  if (degrees % 2 == 0) return sine * CosineSum(cosine * cosine, 1, degrees / 2);
  const double sum = CosineSum(cosine * cosine, 2, (degrees - 1) / 2);
  return 2 / std::numbers::pi * (angle + sine * cosine * sum);
}

}  // namespace

double StudentCdf(double t, int64_t degrees) {
  BRAID_CHECK(degrees >= 1) << "degrees of freedom: " << degrees;
  const double central = CentralProbability(std::abs(t), degrees);
  return t < 0 ? (1 - central) / 2 : (1 + central) / 2;
}

}  // namespace braid
