#include "report/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "report/loss_findings.h"
#include "tests/report/synthetic_run.h"

namespace braid {
namespace run_comparison_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

using Curve = std::vector<PlotPoint>;

Curve CurveOf(int num_steps, const std::function<double(double)>& loss) {
  Curve curve;
  for (int i = 1; i <= num_steps; ++i) curve.push_back({2048.0 * i, loss(i)});
  return curve;
}

// Returns a typical loss after `step` of 480 steps, with noise.
double Loss(double step) { return 3 + 3 * std::exp(-step / 60) + 1.2 * std::exp(-step / 300); }

Curve Noisy(double speed, double sigma, std::mt19937* random) {
  std::normal_distribution<double> noise(0, sigma);
  return CurveOf(480, [&](double step) { return Loss(speed * step) + noise(*random); });
}

TEST(CompareLossTest, DifferenceAgreesWithADirectComputation) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    const Curve base = Noisy(1, 0.05, &random), other = Noisy(1.1, 0.05, &random);
    double sum = 0, squares = 0;
    for (int i = 432; i < 480; ++i) sum += base[i].y - other[i].y;
    for (int i = 432; i < 480; ++i) squares += std::pow(base[i].y - other[i].y - sum / 48, 2);
    const auto comparison = CompareLoss(base, other);
    ASSERT_TRUE(comparison.has_value());
    EXPECT_DOUBLE_EQ(comparison->common_tokens, base.back().x);
    EXPECT_NEAR(comparison->difference, sum / 48, 1e-12);
    EXPECT_NEAR(comparison->standard_error, std::sqrt(squares / 47 / 48), 1e-12);
  }
}

TEST(CompareLossTest, TheSameRunTwiceShowsNoDifference) {
  std::mt19937 random(5);
  const Curve curve = Noisy(1, 0.05, &random);
  const auto comparison = CompareLoss(curve, curve);
  EXPECT_EQ(comparison->difference, 0);
  EXPECT_FALSE(comparison->IsClear());
  EXPECT_FALSE(comparison->share_of_tokens.has_value());
}

// Returns the mean share over simulated pairs whose other run learns `speed` times as fast. Pairs
// without a share are counted in `silent`.
struct Simulated {
  double share = 0;
  double silent = 0;
};
Simulated Simulate(double speed, double sigma) {
  constexpr int kTrials = 400;
  std::mt19937 random(17);
  Simulated result;
  int shares = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto comparison = CompareLoss(Noisy(1, sigma, &random), Noisy(speed, sigma, &random));
    if (!comparison->share_of_tokens) continue;
    result.share += *comparison->share_of_tokens;
    ++shares;
  }
  result.share /= shares;
  result.silent = 1 - shares / static_cast<double>(kTrials);
  return result;
}

TEST(CompareLossTest, EqualRunsHaveNoShareOrNeedAllTokens) {
  for (const double sigma : {0.02, 0.1}) {
    const Simulated equal = Simulate(1, sigma);
    EXPECT_GT(equal.silent, 0.93) << sigma;
  }
}

TEST(CompareLossTest, ShareIsUnbiasedUnderNoise) {
  EXPECT_NEAR(Simulate(1.25, 1e-9).share, 0.8, 0.01);
  EXPECT_NEAR(Simulate(1.25, 0.02).share, 0.8, 0.01);
  EXPECT_NEAR(Simulate(1.25, 0.08).share, 0.8, 0.02);
  EXPECT_NEAR(Simulate(2, 0.08).share, 0.5, 0.02);
}

TEST(CompareLossTest, ShareOfNearlyEqualRunsIsOne) {
  std::mt19937 random(5);
  const Curve base = Noisy(1, 0.05, &random);
  Curve other = base;
  for (PlotPoint& point : other) point.y -= 1e-9;
  EXPECT_NEAR(CompareLoss(base, other)->share_of_tokens.value(), 1, 1e-6);
}

TEST(CompareLossTest, AWorseRunDoesNotReachTheBase) {
  std::mt19937 random(5);
  const auto comparison = CompareLoss(Noisy(1, 0.02, &random), Noisy(0.7, 0.02, &random));
  EXPECT_TRUE(comparison->IsClear());
  EXPECT_LT(comparison->difference, 0);
  EXPECT_FALSE(comparison->share_of_tokens.has_value());
}

TEST(CompareLossTest, InterpolatesTheBaseBetweenSteps) {
  Curve base, other;
  for (int i = 1; i <= 100; ++i) base.push_back({10.0 * i, 5 - 0.01 * i});
  for (int i = 1; i <= 40; ++i) other.push_back({25.0 * i, 4.5 - 0.025 * i});
  const auto comparison = CompareLoss(base, other);
  ASSERT_TRUE(comparison.has_value());
  EXPECT_DOUBLE_EQ(comparison->common_tokens, 1000);
  EXPECT_NEAR(comparison->difference, 0.5, 1e-12);
}

TEST(CompareLossTest, WithoutFinitePointsThereIsNoComparison) {
  const Curve two = {{0, 1}, {1, 2}};
  EXPECT_FALSE(CompareLoss({}, two).has_value());
  EXPECT_FALSE(CompareLoss(two, Curve{{0, NAN}, {1, NAN}}).has_value());
  const auto one_step = CompareLoss(Curve{{5, 2}}, Curve{{5, 3}});
  EXPECT_FALSE(one_step->IsClear()) << "there is no error to compare with";
}

TEST(PairRunsTest, PairsRunsThatDifferOnlyInTheExperts) {
  const std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(PairRuns(runs), ElementsAre(Pair(0, 1), Pair(2, 3)));
  const std::vector<std::pair<std::string, std::function<void(v1::RunSpec*)>>> changes = {
      {"dataset_dir", [](auto* s) { s->set_dataset_dir("/other"); }},
      {"seed", [](auto* s) { s->set_seed(7); }},
      {"num_steps", [](auto* s) { s->set_num_steps(7); }},
      {"init_from", [](auto* s) { s->set_init_from("/run"); }},
      {"branch_from", [](auto* s) { s->set_branch_from("/run"); }},
      {"finetuning", [](auto* s) { s->mutable_finetuning()->mutable_lora()->set_rank(7); }},
      {"batch.global_batch_size", [](auto* s) { s->mutable_batch()->set_global_batch_size(7); }},
      {"optimizer.learning_rate", [](auto* s) { s->mutable_optimizer()->set_learning_rate(7); }},
      {"model.num_layers", [](auto* s) { s->mutable_model()->set_num_layers(7); }},
      {"model.d_model", [](auto* s) { s->mutable_model()->set_d_model(7); }},
      {"model.num_heads", [](auto* s) { s->mutable_model()->set_num_heads(7); }},
      {"model.vocab_size", [](auto* s) { s->mutable_model()->set_vocab_size(7); }},
      {"model.sequence_length", [](auto* s) { s->mutable_model()->set_sequence_length(7); }},
      {"model.routing.segment_length",
       [](auto* s) { s->mutable_model()->mutable_routing()->set_segment_length(7); }}};
  for (const auto& [field, change] : changes) {
    std::vector<ReportRun> changed = runs;
    change(&changed[1].spec);
    EXPECT_THAT(DifferingSettings(changed[0].spec, changed[1].spec), ElementsAre(field));
    EXPECT_THAT(PairRuns(changed), ElementsAre(Pair(2, 3))) << field;
  }
}

TEST(PairRunsTest, RepeatedRunsMakeOnePairForEachRunWithExperts) {
  const ReportRun dense = SyntheticRuns()[0], moe = SyntheticRuns()[1];
  std::vector<ReportRun> runs = {moe, dense, moe, dense, dense, moe};
  EXPECT_THAT(PairRuns(runs), ElementsAre(Pair(1, 0), Pair(1, 2), Pair(1, 5)));
  runs[1].spec.set_seed(7);
  runs[2].spec.set_seed(7);
  EXPECT_THAT(PairRuns(runs), ElementsAre(Pair(1, 2), Pair(3, 0), Pair(3, 5)));
}

TEST(ComparablePairsTest, NeedTheSameTokens) {
  std::vector<ReportRun> runs = {SyntheticRuns()[1], SyntheticRuns()[1]};
  EXPECT_THAT(ComparablePairs(runs), ElementsAre(Pair(0, 1)));
  runs[1].spec.mutable_optimizer()->set_learning_rate(1);
  EXPECT_THAT(ComparablePairs(runs), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(LossFindings(runs), HasSubstr("They differ in optimizer.learning_rate."));
  runs[1].spec.mutable_optimizer()->set_learning_rate(runs[0].spec.optimizer().learning_rate());
  for (ReportRun& run : runs) run.spec.mutable_finetuning()->mutable_lora()->set_rank(8);
  EXPECT_THAT(LossFindings(runs), Not(HasSubstr("They differ")));
  runs[1].spec.mutable_finetuning()->clear_lora();
  runs[1].spec.mutable_finetuning()->set_self_contained(true);
  EXPECT_THAT(LossFindings(runs), HasSubstr("They differ in finetuning.lora."));
  runs[1].spec.mutable_model()->mutable_routing()->set_segment_length(128);
  EXPECT_TRUE(ComparablePairs(runs).empty());
}

TEST(LossFindingsTest, ReportsDifferencesOnlyBeyondTheNoise) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  EXPECT_THAT(LossFindings(runs), HasSubstr("\xC2\xA0%</strong> of its tokens."));
  runs[1].metrics = runs[0].metrics;
  EXPECT_THAT(LossFindings(runs), HasSubstr("do not differ beyond the noise"));
  EXPECT_THAT(LossFindings(runs), Not(HasSubstr("of its tokens")));
}

TEST(LossFindingsTest, ARunInProgressHasNotYetReachedTheBase) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  for (v1::StepMetrics& step : runs[1].metrics) {
    step.set_loss_after_first_segment(step.loss_after_first_segment() + 1);
  }
  EXPECT_THAT(LossFindings(runs), HasSubstr("it does not reach the final loss of dense."));
  runs[1].metrics.resize(200);
  EXPECT_THAT(LossFindings(runs),
              HasSubstr("it has not yet reached the final loss of dense in 410k tokens."));
  runs[1].life.state = v1::RUN_SUCCEEDED;
  EXPECT_THAT(LossFindings(runs), HasSubstr("it does not reach the final loss of dense."))
      << "it stopped early";
}

TEST(LossFindingsTest, TenStepsDoNotTellADifferenceFromNoise) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  for (ReportRun& run : runs) run.metrics.resize(10);
  runs[1].metrics[9].set_loss_after_first_segment(runs[0].metrics[9].loss_after_first_segment() -
                                                  0.5);
  EXPECT_THAT(LossFindings(runs), HasSubstr("have too few steps to tell a difference from noise at "
                                            "equal tokens (20.5k): +0.500 nats per token."));
}

TEST(LossFindingsTest, ADivergedRunIsNamedAndNotCompared) {
  std::vector<ReportRun> runs = SyntheticRuns();
  runs.resize(2);
  for (int i = 299; i < 480; ++i) runs[1].metrics[i].set_loss(NAN);
  const std::string findings = LossFindings(runs);
  EXPECT_THAT(findings, HasSubstr("<strong>moe</strong> diverged at step 300"));
  EXPECT_THAT(findings, Not(HasSubstr("equal tokens")));
  runs[1].metrics[479].set_loss(2);
  EXPECT_THAT(LossFindings(runs), Not(HasSubstr("diverged"))) << "it came back";
}

}  // namespace run_comparison_test
}  // namespace braid
