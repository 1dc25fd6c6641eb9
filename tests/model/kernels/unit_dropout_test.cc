// The random factors of dropout: every instruction set against the definition, rates, and
// independence of units, tokens and steps.
#include "model/kernels/unit_dropout.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace unit_dropout_test {

using Floats = std::vector<float>;

struct Keys {
  std::vector<uint32_t> low, high;
};

Keys RandomKeys(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Keys keys;
  for (size_t i = 0; i < count; ++i) {
    keys.low.push_back(random());
    keys.high.push_back(random());
  }
  return keys;
}

UnitDropout DropoutWith(UnitDropout::Kind kind, const Keys& keys, float rate) {
  UnitDropout dropout;
  dropout.kind = kind;
  dropout.key_low = keys.low.data();
  dropout.key_high = keys.high.data();
  dropout.rate = rate;
  dropout.block = 4;
  dropout.span = 50;
  dropout.logit = std::log(rate / (1 - rate));
  return dropout;
}

// Returns the factors [units, tokens] that a set of kernels applies.
Floats Factors(const VectorKernels& kernels, const UnitDropout& dropout, size_t units,
               size_t tokens) {
  Floats values(units * tokens, 1.0f);
  kernels.drop_units({dropout, 0, units, tokens}, values.data());
  return values;
}

std::vector<const VectorKernels*> Levels() {
  size_t count = 0;
  const VectorKernels* const* all = AllVectorKernels(&count);
  return {all, all + count};
}

TEST(UnitDropoutTest, EveryLevelDropsTheUnitsOfTheDefinition) {
  const Keys keys = RandomKeys(37, 1);
  const UnitDropout dropout = DropoutWith(UnitDropout::kBernoulli, keys, 0.3f);
  for (const VectorKernels* level : Levels()) {
    const Floats factors = Factors(*level, dropout, 150, 37);
    for (size_t u = 0; u < 150; ++u) {
      for (size_t t = 0; t < 37; ++t) {
        const double bits = DropoutBits(u, keys.low[t], keys.high[t]) * 0x1p-32;
        ASSERT_FLOAT_EQ(factors[u * 37 + t], bits < 0.3f ? 0 : 1 / 0.7f) << level->name;
      }
    }
    // One token: the units of its column, from any first unit.
    Floats column(100, 1.0f);
    level->drop_units({dropout.From(9), 50, 100, 1}, column.data());
    for (size_t u = 0; u < 100; ++u) ASSERT_EQ(column[u], factors[(50 + u) * 37 + 9]);
  }
}

// Bernoulli mask, max-pooled with stride 1 and padding block / 2, within each span.
TEST(UnitDropoutTest, BlocksEqualAPlainMaxPool) {
  const Keys keys = RandomKeys(60, 2);
  for (const int block : {1, 4, 7}) {
    UnitDropout dropout = DropoutWith(UnitDropout::kBlock, keys, 0.4f);
    dropout.block = block;
    for (const VectorKernels* level : Levels()) {
      const Floats factors = Factors(*level, dropout, 150, 60);
      for (int64_t t = 0; t < 60; ++t) {
        for (int64_t span = 0; span < 150; span += 50) {
          std::vector<bool> mask(50 + 2 * block, false);  // padded
          for (int64_t u = 0; u < 50; ++u) {
            mask[block / 2 + u] = DropoutBits(static_cast<uint32_t>(span + u), keys.low[t],
                                              keys.high[t]) < 0.4 / block * 0x1p32;
          }
          for (int64_t u = 0; u < 50; ++u) {
            bool pooled = false;
            for (int64_t i = u; i < u + block; ++i) pooled = pooled || mask[i];
            ASSERT_EQ(factors[(span + u) * 60 + t], pooled ? 0 : 1) << level->name << " " << block;
          }
        }
      }
    }
  }
}

TEST(UnitDropoutTest, ConcreteFactorsFollowTheirDefinition) {
  const Keys keys = RandomKeys(21, 3);
  const double p = 0.2;
  const UnitDropout dropout = DropoutWith(UnitDropout::kConcrete, keys, p);
  for (const VectorKernels* level : Levels()) {
    const Floats factors = Factors(*level, dropout, 90, 21);
    double mean = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
      const uint32_t bits = DropoutBits(i / 21, keys.low[i % 21], keys.high[i % 21]);
      const double u = ((bits >> 9) + 0.5) * 0x1p-23;
      const double z =
          1 /
          (1 + std::exp(-(std::log(p) - std::log(1 - p) + std::log(u) - std::log(1 - u)) / 0.1));
      ASSERT_NEAR(factors[i], (1 - z) / (1 - p), 2e-4) << level->name;
      mean += factors[i] / static_cast<double>(factors.size());
    }
    EXPECT_NEAR(mean, 1, 0.1);
  }
}

// At a rate near 1 most factors are tiny, and the others are divided by 1 - rate.
TEST(UnitDropoutTest, ConcreteFactorsOfHighRatesAreAccurate) {
  constexpr size_t kUnits = 4000, kTokens = 21;
  const Keys keys = RandomKeys(kTokens, 5);
  for (const double logit : {8.0, 30.0}) {
    UnitDropout dropout = DropoutWith(UnitDropout::kConcrete, keys, 0.5f);
    dropout.logit = static_cast<float>(logit);
    for (const VectorKernels* level : Levels()) {
      const Floats factors = Factors(*level, dropout, kUnits, kTokens);
      for (size_t i = 0; i < factors.size(); ++i) {
        const size_t t = i % kTokens;
        const uint32_t bits =
            DropoutBits(static_cast<uint32_t>(i / kTokens), keys.low[t], keys.high[t]);
        const double u = ((bits >> 9) + 0.5) * 0x1p-23;
        const double kept = 1 / (1 + std::exp((logit + std::log(u) - std::log(1 - u)) / 0.1));
        const double expected = kept * (1 + std::exp(logit));
        ASSERT_NEAR(factors[i], expected, 1e-3 * expected + 1e-12) << level->name << " " << logit;
      }
    }
  }
}

TEST(UnitDropoutTest, RateIsWithinFiveSigmaAndNeighborsAreIndependent) {
  constexpr size_t kUnits = 512, kTokens = 512;
  const Keys keys = RandomKeys(kTokens, 4);
  for (const float rate : {0.01f, 0.1f, 0.5f, 0.9f}) {
    const Floats factors =
        Factors(Vector(), DropoutWith(UnitDropout::kBernoulli, keys, rate), kUnits, kTokens);
    double dropped = 0, with_next_unit = 0, with_next_token = 0;
    const auto zero = [&](size_t u, size_t t) { return factors[u * kTokens + t] == 0; };
    for (size_t u = 0; u + 1 < kUnits; ++u) {
      for (size_t t = 0; t + 1 < kTokens; ++t) {
        dropped += zero(u, t);
        with_next_unit += zero(u, t) && zero(u + 1, t);
        with_next_token += zero(u, t) && zero(u, t + 1);
      }
    }
    const double count = (kUnits - 1) * (kTokens - 1), both = double{rate} * rate;
    const auto sigma = [&](double share) { return std::sqrt(share * (1 - share) / count); };
    EXPECT_NEAR(dropped / count, rate, 5 * sigma(rate));
    EXPECT_NEAR(with_next_unit / count, both, 8 * sigma(both));
    EXPECT_NEAR(with_next_token / count, both, 8 * sigma(both));
  }
}

}  // namespace unit_dropout_test
}  // namespace braid
