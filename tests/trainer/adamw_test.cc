#include "trainer/adamw.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace adamw_test {

// The update of one element in double precision, as the paper writes it.
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
  const AdamwParameter parameter{value, gradient, m, v, decay};
  for (int64_t t = 1; t <= 20; ++t) {
    for (float& g : gradient) g = normal(random) * 100;
    const double rate = 0.01 * static_cast<double>(t);
    AdamwStep(settings, rate, t, 0.02, {&parameter, 1});
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

TEST(AdamwTest, FactorsScaleTheRateOfTheirParameter) {
  std::vector<float> gradient = {1, -2, 3}, value[3], m[3], v[3];
  std::vector<AdamwParameter> parameters;
  const double factors[] = {1, 0.25, 0};
  for (int i = 0; i < 3; ++i) {
    value[i] = {5, 6, 7};
    m[i].resize(3), v[i].resize(3);
    parameters.push_back({value[i], gradient, m[i], v[i], true, factors[i], factors[i]});
  }
  AdamwStep({}, 0.01, 1, 1, parameters);
  for (size_t j = 0; j < 3; ++j) {
    const float start = 5.0f + static_cast<float>(j);
    EXPECT_NEAR(value[1][j] - start, 0.25 * (value[0][j] - start), 1e-6);
    EXPECT_EQ(value[2][j], start);
    EXPECT_EQ(m[2][j], m[0][j]);
  }
}

// WIDTH_SCALED scales the rate of updates only.
TEST(AdamwTest, DecayHasAFactorOfItsOwn) {
  std::vector<float> value = {5}, gradient = {0}, m = {0}, v = {0};
  const AdamwParameter parameter{value, gradient, m, v, true, 0.25, 0.5};
  AdamwStep({.weight_decay = 0.1}, 0.2, 1, 1, {&parameter, 1});
  EXPECT_FLOAT_EQ(value[0], 5 * (1 - 0.2f * 0.5f * 0.1f));
}

// The shards of ranks cut parameters in this way.
TEST(AdamwTest, CuttingAParameterChangesNoBit) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const size_t size = 100003;
  std::vector<float> gradient(size);
  for (float& g : gradient) g = normal(random);
  std::vector<float> value[2], m[2], v[2];
  for (int i : {0, 1}) value[i] = m[i] = v[i] = std::vector<float>(size, 0.5f);
  const AdamwParameter whole{value[0], gradient, m[0], v[0], true};
  std::vector<AdamwParameter> parts;
  for (size_t begin = 0; begin < size; begin += 33333) {
    const size_t n = std::min<size_t>(33333, size - begin);
    const auto part = [&](std::vector<float>& x) { return std::span(x).subspan(begin, n); };
    parts.push_back({part(value[1]), part(gradient), part(m[1]), part(v[1]), true});
  }
  AdamwStep({}, 0.1, 3, 0.5, {&whole, 1});
  AdamwStep({}, 0.1, 3, 0.5, parts);
  EXPECT_EQ(value[0], value[1]);
  EXPECT_EQ(m[0], m[1]);
  EXPECT_EQ(v[0], v[1]);
}

TEST(AdamwTest, FirstStepMovesByTheRateAgainstTheGradient) {
  std::vector<float> value = {1, 1}, gradient = {1e-3f, -5}, m(2), v(2);
  const AdamwParameter parameter{value, gradient, m, v, false};
  AdamwStep({}, 0.1, 1, 1.0, {&parameter, 1});
  EXPECT_NEAR(value[0], 0.9, 1e-5);
  EXPECT_NEAR(value[1], 1.1, 1e-5);
}

}  // namespace adamw_test
}  // namespace braid
