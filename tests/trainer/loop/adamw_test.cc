#include "trainer/adamw.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace {

// The update of one element, as the paper writes it, in double.
struct Scalar {
  double value = 0, m = 0, v = 0;

  void Step(const AdamwSettings& s, double rate, int64_t t, double g, bool decay) {
    if (decay) value -= rate * s.weight_decay * value;
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(s.beta1, t));
    const double v_hat = v / (1 - std::pow(s.beta2, t));
    value -= rate * m_hat / (std::sqrt(v_hat) + s.epsilon);
  }
};

void CompareWithScalar(size_t size, bool decay) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::normal_distribution<float> normal;
  const AdamwSettings settings{.weight_decay = 0.3};
  std::vector<float> value(size), gradient(size), m(size), v(size);
  for (float& x : value) x = normal(random);
  std::vector<Scalar> oracle(size);
  for (size_t i = 0; i < size; ++i) oracle[i].value = value[i];
  for (int64_t t = 1; t <= 20; ++t) {
    for (float& g : gradient) g = normal(random) * 100;
    const double rate = 0.01 * static_cast<double>(t);
    AdamwStep(settings, rate, t, 0.02, {value, gradient, m, v, decay});
    for (size_t i = 0; i < size; ++i) oracle[i].Step(settings, rate, t, 0.02 * gradient[i], decay);
  }
  for (size_t i = 0; i < size; ++i) {
    ASSERT_NEAR(value[i], oracle[i].value, 2e-5 * (1 + std::abs(oracle[i].value))) << i;
    ASSERT_NEAR(m[i], oracle[i].m, 1e-5);
    ASSERT_NEAR(v[i], oracle[i].v, 1e-5 * (1 + oracle[i].v));
  }
}

TEST(AdamwTest, MatchesTheScalarFormulaWithDecay) { CompareWithScalar(37, true); }
TEST(AdamwTest, MatchesTheScalarFormulaWithoutDecay) { CompareWithScalar(37, false); }
TEST(AdamwTest, MatchesTheScalarFormulaOnThreads) { CompareWithScalar(40001, true); }

TEST(AdamwTest, FirstStepMovesByTheRateAgainstTheGradient) {
  std::vector<float> value = {1, 1}, gradient = {1e-3f, -5}, m(2), v(2);
  AdamwStep({}, 0.1, 1, 1.0, {value, gradient, m, v, false});
  EXPECT_NEAR(value[0], 0.9, 1e-5);
  EXPECT_NEAR(value[1], 1.1, 1e-5);
}

}  // namespace
}  // namespace braid
