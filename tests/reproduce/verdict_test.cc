#include "reproduce/verdict.h"

#include <gtest/gtest.h>

namespace braid {
namespace verdict_test {

EffectEstimate Interval(double low, double high, int num_seeds = 3) {
  EffectEstimate estimate{.low = low, .high = high, .has_interval = true};
  estimate.by_seed.assign(num_seeds, 0.0);
  return estimate;
}

constexpr VerdictRule kPositive = {EffectRule::kPositive, 0.01, 0.02};
constexpr VerdictRule kEquivalent = {EffectRule::kEquivalent, 0.03, 0.02};
constexpr VerdictRule kNotInferior = {EffectRule::kNotInferior, 0.03, 0.02};

TEST(VerdictTest, PositiveNeedsTheIntervalAboveZero) {
  EXPECT_EQ(Judge(Interval(0.001, 0.1), kPositive), Verdict::kShown);
  EXPECT_EQ(Judge(Interval(-0.001, 0.1), kPositive), Verdict::kInconclusive);
  EXPECT_EQ(Judge(Interval(-0.2, -0.1), kPositive), Verdict::kNotShown);
}

TEST(VerdictTest, AnEffectTooSmallToMatterIsNotShown) {
  EXPECT_EQ(Judge(Interval(-0.005, 0.009), kPositive), Verdict::kNotShown);
  EXPECT_EQ(Judge(Interval(0.001, 0.009), kPositive), Verdict::kNotShown);
}

TEST(VerdictTest, EquivalentNeedsTheIntervalWithinTheMargin) {
  EXPECT_EQ(Judge(Interval(-0.02, 0.02), kEquivalent), Verdict::kShown);
  EXPECT_EQ(Judge(Interval(-0.02, 0.04), kEquivalent), Verdict::kInconclusive);
  EXPECT_EQ(Judge(Interval(0.04, 0.06), kEquivalent), Verdict::kNotShown);
  EXPECT_EQ(Judge(Interval(-0.06, -0.04), kEquivalent), Verdict::kNotShown);
}

TEST(VerdictTest, NotInferiorNeedsTheIntervalAboveMinusTheMargin) {
  EXPECT_EQ(Judge(Interval(-0.02, 0.5), kNotInferior), Verdict::kShown);
  EXPECT_EQ(Judge(Interval(-0.04, 0.5), kNotInferior), Verdict::kInconclusive);
  EXPECT_EQ(Judge(Interval(-0.5, -0.04), kNotInferior), Verdict::kNotShown);
}

TEST(VerdictTest, OneSeedMustExceedItsAllowance) {
  EXPECT_EQ(Judge(Interval(0.015, 0.1, 1), kPositive), Verdict::kInconclusive);
  EXPECT_EQ(Judge(Interval(0.025, 0.1, 1), kPositive), Verdict::kShown);
  EXPECT_EQ(Judge(Interval(-0.005, 0.005, 1), kPositive), Verdict::kInconclusive);
  EXPECT_EQ(Judge(Interval(-0.02, 0.02, 1), kEquivalent), Verdict::kInconclusive);
}

TEST(VerdictTest, WithoutAnIntervalNothingIsShown) {
  EffectEstimate estimate = Interval(1, 2);
  estimate.has_interval = false;
  EXPECT_EQ(Judge(estimate, kPositive), Verdict::kInconclusive);
}

TEST(VerdictTest, AClaimRequiresAllItsParts) {
  using enum Verdict;
  EXPECT_EQ(JudgeAll(std::vector{kShown, kShown}), kShown);
  EXPECT_EQ(JudgeAll(std::vector{kShown, kInconclusive}), kInconclusive);
  EXPECT_EQ(JudgeAll(std::vector{kShown, kNotMeasured}), kInconclusive);
  EXPECT_EQ(JudgeAll(std::vector{kShown, kNotShown, kNotMeasured}), kNotShown);
  EXPECT_EQ(JudgeAll(std::vector{kNotMeasured, kNotMeasured}), kNotMeasured);
}

}  // namespace verdict_test
}  // namespace braid
