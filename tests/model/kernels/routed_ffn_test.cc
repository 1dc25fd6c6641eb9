// The routed FFN kernel against its definition: a loop over tokens and experts in double precision.
#include "model/kernels/routed_ffn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/fused_ffn.h"
#include "model/kernels/token_panels.h"

namespace braid {
namespace routed_ffn_test {

struct RoutedCase {
  std::string name;
  int64_t tokens, width, hidden, experts, active;
  bool weighted = true;
  int only = -1;  // when not -1, every token's first choice
  UnitDropout::Kind dropout = UnitDropout::kNone;
  double absent = 0;  // share of the pairs
};

void PrintTo(const RoutedCase& c, std::ostream* out) { *out << c.name; }

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

struct Gradients {
  Doubles dx, dweights, dgate, dup, ddown;
  double dlogit = 0;
};

double Silu(double x) { return x / (1 + std::exp(-x)); }

double SiluSlope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

class RoutedFfnTest : public testing::TestWithParam<RoutedCase> {
 protected:
  RoutedFfnTest() : c_(GetParam()) {
    if (!HasFusedFfn()) return;
    const int64_t matrix = c_.experts * c_.hidden * c_.width;
    x_ = Random(c_.tokens * c_.width, 1);
    dy_ = Random(x_.size(), 1);
    gate_ = Random(matrix, 0.3f);
    up_ = Random(matrix, 0.3f);
    down_ = Random(matrix, 0.3f);
    weights_ = Random(c_.tokens * c_.active, 1);
    Choose();
    for (int64_t t = 0; t < c_.tokens; ++t) {
      key_low_.push_back(random_());
      key_high_.push_back(random_());
    }
  }

  void SetUp() override {
    if (!HasFusedFfn()) GTEST_SKIP() << "no kernels for this CPU";
  }

  Floats Random(int64_t count, float scale) {
    std::normal_distribution<float> normal(0, scale);
    Floats values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  // Draws k distinct experts per token, ascending.
  void Choose() {
    std::vector<int32_t> all(c_.experts);
    for (int64_t t = 0; t < c_.tokens; ++t) {
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random_);
      if (c_.only >= 0) std::iter_swap(all.begin(), std::ranges::find(all, c_.only));
      std::sort(all.begin(), all.begin() + c_.active);
      chosen_.insert(chosen_.end(), all.begin(), all.begin() + c_.active);
    }
    std::bernoulli_distribution absent(c_.absent);
    for (int32_t& expert : chosen_) expert = absent(random_) ? -1 : expert;
  }

  UnitDropout Dropout() const {
    UnitDropout dropout;
    dropout.kind = c_.dropout;
    dropout.key_low = key_low_.data();
    dropout.key_high = key_high_.data();
    dropout.rate = 0.25f;
    dropout.block = 3;
    dropout.span = c_.hidden;
    dropout.logit = logit_;
    if (c_.dropout == UnitDropout::kConcrete) dropout.rate = 1 / (1 + std::exp(-logit_));
    return dropout;
  }

  // The factor of a unit, by its definition; also its derivative with respect to the logit.
  struct Factor {
    double value = 1, slope = 0;
  };

  Factor FactorOf(int64_t token, int64_t unit) const {
    const auto bits = [&](int64_t u) {
      return DropoutBits(static_cast<uint32_t>(u), key_low_[token], key_high_[token]) * 0x1p-32;
    };
    switch (c_.dropout) {
      case UnitDropout::kBernoulli:
        return {bits(unit) < 0.25 ? 0 : 1 / 0.75};
      case UnitDropout::kBlock: {
        const int64_t first = unit / c_.hidden * c_.hidden;
        for (int64_t u = unit - 1; u <= unit + 1; ++u) {
          if (u >= first && u < first + c_.hidden && bits(u) < 0.25 / 3) return {0};
        }
        return {1};
      }
      case UnitDropout::kConcrete: {
        const double p = 1 / (1 + std::exp(-double{logit_}));
        const double u = (std::floor(bits(unit) * 0x1p23) + 0.5) * 0x1p-23;
        const double z = 1 / (1 + std::exp(-(std::log(p / (1 - p)) + std::log(u / (1 - u))) / 0.1));
        const double value = (1 - z) / (1 - p);
        return {value, value * (p - z / 0.1)};
      }
      default:
        return {};
    }
  }

  RoutedFfnShape Shape() const {
    return {c_.tokens, c_.width, c_.hidden, c_.experts, c_.active, unpacked_pairs_};
  }
  ChosenExperts Experts() const {
    return {chosen_.data(), c_.weighted ? weights_.data() : nullptr};
  }
  FfnMatrices Matrices() const { return {gate_.data(), up_.data(), down_.data()}; }

  Floats Forward(int threads, Floats* kept = nullptr) const {
    Floats y(x_.size(), 7.0f);
    if (kept != nullptr) kept->assign(RoutedKeptSize(Shape(), Experts()), 7.0f);
    RoutedFfnForward(Shape(), x_.data(), Experts(), Matrices(),
                     kept == nullptr ? nullptr : kept->data(), y.data(), threads, Dropout());
    return y;
  }

  struct Backward {
    Floats dx, dweights, dgate, dup, ddown;
    double dlogit = 0;
  };

  // Gradients of the matrices start at 1.
  Backward RunBackward(int threads, bool trained = true) const {
    Floats kept;
    Forward(threads, &kept);
    const Floats ones(gate_.size(), 1.0f);
    Backward b{Floats(x_.size(), 7.0f), Floats(weights_.size(), 7.0f), ones, ones, ones};
    const FfnMatrixGradients gradients =
        trained ? FfnMatrixGradients{b.dgate.data(), b.dup.data(), b.ddown.data()}
                : FfnMatrixGradients{nullptr, nullptr, nullptr};
    RoutedFfnBackward(Shape(), x_.data(), Experts(), Matrices(), kept.data(), dy_.data(),
                      b.dx.data(), c_.weighted ? b.dweights.data() : nullptr, gradients, threads,
                      Dropout(), &b.dlogit);
    return b;
  }

  // The definition; adds the gradients of <dy, y> when asked for.
  Doubles Reference(Gradients* gradients = nullptr) const {
    Doubles y(x_.size());
    for (int64_t t = 0; t < c_.tokens; ++t) {
      for (int64_t j = 0; j < c_.active; ++j) AddPair(t, j, &y, gradients);
    }
    return y;
  }

  Gradients ReferenceGradients() const {
    Gradients g{Doubles(x_.size()), Doubles(weights_.size()), Doubles(gate_.size()),
                Doubles(gate_.size()), Doubles(gate_.size())};
    Reference(&g);
    return g;
  }

  void AddPair(int64_t t, int64_t j, Doubles* y, Gradients* g) const {
    const int64_t d = c_.width, pair = t * c_.active + j;
    const double w = c_.weighted ? weights_[pair] : 1;
    if (chosen_[pair] < 0) return;
    for (int64_t unit = 0; unit < c_.hidden; ++unit) {
      const int64_t row = (chosen_[pair] * c_.hidden + unit) * d;
      double gate = 0, up = 0, back = 0;
      for (int64_t i = 0; i < d; ++i) {
        gate += double{x_[t * d + i]} * gate_[row + i];
        up += double{x_[t * d + i]} * up_[row + i];
        back += double{dy_[t * d + i]} * down_[row + i];
      }
      const Factor factor = FactorOf(t, chosen_[pair] * c_.hidden + unit);
      const double activation = Silu(gate) * up * factor.value;
      for (int64_t i = 0; i < d; ++i) (*y)[t * d + i] += w * activation * down_[row + i];
      if (g == nullptr) continue;
      g->dlogit += w * back * Silu(gate) * up * factor.slope;
      back *= factor.value;
      const double dgate = w * back * SiluSlope(gate) * up, dup = w * back * Silu(gate);
      g->dweights[pair] += Silu(gate) * up * back;
      for (int64_t i = 0; i < d; ++i) {
        g->dx[t * d + i] += dgate * gate_[row + i] + dup * up_[row + i];
        g->dgate[row + i] += dgate * x_[t * d + i];
        g->dup[row + i] += dup * x_[t * d + i];
        g->ddown[row + i] += w * activation * dy_[t * d + i];
      }
    }
  }

  // Expects equality relative to the largest value; `offset` was added to `got`.
  static void ExpectNear(const Floats& got, const Doubles& expected, const char* what,
                         double offset = 0) {
    double worst = 0, largest = 1e-3;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_FALSE(std::isnan(got[i])) << what << " " << i;
      worst = std::max(worst, std::abs(got[i] - offset - expected[i]));
    }
    EXPECT_LT(worst / (largest + offset), 2e-5) << what;
  }

  const RoutedCase c_;
  std::mt19937 random_{11};
  Floats x_, dy_, gate_, up_, down_, weights_;
  std::vector<int32_t> chosen_;
  std::vector<uint32_t> key_low_, key_high_;
  float logit_ = -0.4f;
  int64_t unpacked_pairs_ = kUnpackedPairs;
};

TEST_P(RoutedFfnTest, ForwardEqualsALoopOverTokensAndExperts) {
  ExpectNear(Forward(2), Reference(), "y");
  Floats kept;
  EXPECT_EQ(Forward(2, &kept), Forward(2));
}

TEST_P(RoutedFfnTest, ExpertsThatAreNotPackedComputeTheSame) {
  unpacked_pairs_ = 0;
  ExpectNear(Forward(2), Reference(), "packed");
  unpacked_pairs_ = kPanelTokens;
  ExpectNear(Forward(2), Reference(), "not packed");
  const Backward got = RunBackward(2);
  ExpectNear(got.dx, ReferenceGradients().dx, "x");
}

TEST_P(RoutedFfnTest, GradientsEqualALoopOverTokensAndExperts) {
  const Backward got = RunBackward(2);
  const Gradients expected = ReferenceGradients();
  ExpectNear(got.dx, expected.dx, "x");
  ExpectNear(got.dgate, expected.dgate, "gate", 1);
  ExpectNear(got.dup, expected.dup, "up", 1);
  ExpectNear(got.ddown, expected.ddown, "down", 1);
  if (c_.weighted) ExpectNear(got.dweights, expected.dweights, "weights");
  EXPECT_NEAR(got.dlogit, expected.dlogit, 1e-4 * (1 + std::abs(expected.dlogit)));
}

TEST_P(RoutedFfnTest, ThreadsDoNotChangeABit) {
  const Floats y = Forward(1);
  const Backward alone = RunBackward(1);
  for (const int threads : {2, 3}) {
    EXPECT_EQ(Forward(threads), y) << threads;
    const Backward b = RunBackward(threads);
    EXPECT_EQ(b.dx, alone.dx) << threads;
    EXPECT_EQ(b.dweights, alone.dweights) << threads;
    EXPECT_EQ(b.dlogit, alone.dlogit) << threads;
    EXPECT_EQ(b.dgate, alone.dgate) << threads;
    EXPECT_EQ(b.dup, alone.dup) << threads;
    EXPECT_EQ(b.ddown, alone.ddown) << threads;
  }
}

TEST_P(RoutedFfnTest, FrozenMatricesLeaveTheOtherGradientsAsTheyAre) {
  const Backward all = RunBackward(2), frozen = RunBackward(2, /*trained=*/false);
  EXPECT_EQ(frozen.dx, all.dx);
  EXPECT_EQ(frozen.dweights, all.dweights);
  EXPECT_EQ(frozen.dgate, Floats(gate_.size(), 1.0f));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RoutedFfnTest,
    testing::Values(
        RoutedCase{"One", 1, 3, 2, 2, 1}, RoutedCase{"Odd", 37, 19, 7, 5, 2},
        RoutedCase{"ManyExpertsFewTokens", 5, 8, 3, 16, 3},
        RoutedCase{"AllTokensOneExpert", 150, 24, 70, 4, 1, true, 2},
        RoutedCase{"WeightsOfOne", 70, 33, 65, 3, 2, false},
        RoutedCase{"AllExpertsWeighted", 70, 16, 17, 4, 4},
        RoutedCase{"AllExpertsOfWeightOne", 70, 16, 17, 4, 4, false},
        RoutedCase{"SeveralSlabsAndGroups", 2100, 9, 5, 3, 2, true, 1},
        RoutedCase{"LargerGroups", 9000, 4, 3, 3, 1, true, 0},
        RoutedCase{"SeveralPhases", 4200, 4, 65, 9, 6},
        RoutedCase{"MoreHiddenUnitsThanArePackedTogether", 150, 12, 200, 2, 1},
        RoutedCase{"FewUnits", 900, 150, 33, 6, 2},
        RoutedCase{"FewUnitsAndWeightsOfOne", 300, 64, 64, 5, 3, false},
        RoutedCase{"FewUnitsAndManyFeatures", 160, 700, 8, 2, 1},
        RoutedCase{"FewUnitsUneven", 450, 70, 9, 5, 2, true, 2, UnitDropout::kNone, 0.2},
        RoutedCase{"FewUnitsOfOneActiveExpert", 1500, 70, 4, 16, 1},
        RoutedCase{"FewUnitsConcrete", 300, 12, 20, 3, 2, true, -1, UnitDropout::kConcrete},
        RoutedCase{"SeveralBlocksOfFeatures", 90, 150, 40, 5, 2},
        RoutedCase{"MoreActiveExpertsThanAreAddedInTurn", 80, 20, 6, 40, 35},
        RoutedCase{"FewPairsOfEach", 9, 70, 70, 12, 3, true, -1, UnitDropout::kConcrete, 0.2},
        RoutedCase{"Absent", 90, 12, 7, 5, 3, true, -1, UnitDropout::kNone, 0.4},
        RoutedCase{"AbsentWeightsOfOne", 9000, 4, 3, 2, 2, false, -1, UnitDropout::kNone, 0.4},
        RoutedCase{"NothingChosen", 20, 5, 4, 3, 2, true, -1, UnitDropout::kNone, 1},
        RoutedCase{"Bernoulli", 150, 12, 70, 3, 2, true, -1, UnitDropout::kBernoulli},
        RoutedCase{"BernoulliDense", 150, 12, 40, 3, 3, false, -1, UnitDropout::kBernoulli},
        RoutedCase{"Block", 70, 12, 33, 3, 2, false, -1, UnitDropout::kBlock},
        RoutedCase{"BlockDense", 70, 12, 33, 3, 3, false, -1, UnitDropout::kBlock},
        RoutedCase{"Concrete", 70, 12, 33, 3, 2, true, -1, UnitDropout::kConcrete},
        RoutedCase{"ConcreteDense", 150, 12, 33, 3, 3, false, -1, UnitDropout::kConcrete}),
    [](const auto& test) { return test.param.name; });

using RoutedFfnReferenceTest = RoutedFfnTest;

TEST_P(RoutedFfnReferenceTest, GradientsEqualFiniteDifferences) {
  const Gradients gradients = ReferenceGradients();
  const auto loss_with = [&](float* place, float value) {
    const float before = std::exchange(*place, value);
    const Doubles y = Reference();
    *place = before;
    return std::inner_product(y.begin(), y.end(), dy_.begin(), 0.0);
  };
  const auto check = [&](float* place, double gradient, const char* what) {
    const float above = *place + 0x1p-12f, below = *place - 0x1p-12f;
    const double slope =
        (loss_with(place, above) - loss_with(place, below)) / (double{above} - below);
    EXPECT_NEAR(gradient, slope, 1e-4 * (1 + std::abs(slope))) << what;
  };
  const auto check_all = [&](Floats* values, const Doubles& gradient, const char* what) {
    for (size_t i = 0; i < values->size(); ++i) check(&(*values)[i], gradient[i], what);
  };
  check_all(&x_, gradients.dx, "x");
  check_all(&gate_, gradients.dgate, "gate");
  check_all(&up_, gradients.dup, "up");
  check_all(&down_, gradients.ddown, "down");
  check_all(&weights_, gradients.dweights, "weights");
  check(&logit_, gradients.dlogit, "logit");
}

// The inputs do not decide which units are dropped; the factors of kConcrete depend on the logit.
INSTANTIATE_TEST_SUITE_P(
    Dropouts, RoutedFfnReferenceTest,
    testing::Values(RoutedCase{"None", 5, 4, 6, 3, 2},
                    RoutedCase{"Bernoulli", 5, 4, 6, 3, 2, true, -1, UnitDropout::kBernoulli},
                    RoutedCase{"Block", 5, 4, 6, 3, 2, true, -1, UnitDropout::kBlock},
                    RoutedCase{"Concrete", 5, 4, 6, 3, 2, true, -1, UnitDropout::kConcrete}),
    [](const auto& test) { return test.param.name; });

TEST(RoutedFfnKernelTest, AllExpertsWithWeightsOfOneHaveTheBitsOfTheDenseKernel) {
  if (!HasFusedFfn()) GTEST_SKIP() << "no kernels for this CPU";
  constexpr int64_t kTokens = 130, kWidth = 48, kHidden = 24, kExperts = 6;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t count) {
    Floats result(count);
    for (float& value : result) value = normal(random);
    return result;
  };
  const Floats x = values(kTokens * kWidth), gate = values(kExperts * kHidden * kWidth);
  const Floats up = values(gate.size()), down = values(gate.size());
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < kTokens * kExperts; ++i) chosen.push_back(i % kExperts);
  const FfnMatrices matrices = {gate.data(), up.data(), down.data()};
  Floats routed(x.size()), dense(x.size());
  RoutedFfnForward({kTokens, kWidth, kHidden, kExperts, kExperts}, x.data(),
                   {chosen.data(), nullptr}, matrices, nullptr, routed.data(), 2);
  FusedFfnForward({1, kTokens, kWidth, kHidden * kExperts, 1}, x.data(), nullptr, matrices, nullptr,
                  dense.data(), 2);
  EXPECT_EQ(routed, dense);
}

}  // namespace routed_ffn_test
}  // namespace braid
