#include "reproduce/lory/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string_view>

namespace braid {
namespace claims_test {

const std::vector<std::string> kDomains = {"code", "law", "news"};
constexpr int kWindows = 40;
constexpr int kTokens = 448;
constexpr int kFirst = 64;
const ClaimSettings kSettings = {.bootstrap = {.samples = 500}};

// A simulated experiment with known effects: each run has a mean loss, and windows and runs have
// random errors.
class Experiment {
 public:
  explicit Experiment(uint64_t seed) : random_(seed) {
    for (size_t d = 0; d < kDomains.size(); ++d) {
      evidence_.domains.push_back({kDomains[d], 1000, 0.2 + 0.3 * static_cast<double>(d)});
    }
    for (int w = 0; w < kWindows * static_cast<int>(kDomains.size()); ++w) {
      windows_.push_back(Normal(0.3));
    }
  }

  // Adds the score of a run whose later tokens have `loss` and whose first tokens have
  // `first_loss`.
  void Score(const std::string& name, v1::OrderMode order, ScoredRouting routing, uint64_t seed,
             double loss, double first_loss, int32_t first_positions = 64) {
    HeldoutScore score{.routing = routing, .first_positions = first_positions};
    for (size_t d = 0; d < kDomains.size(); ++d) {
      DomainWindows& domain = score.domains.emplace_back(DomainWindows{.domain = kDomains[d]});
      const double shift = shifts_[{name, kDomains[d]}];
      for (int w = 0; w < kWindows; ++w) {
        const double error = windows_[d * kWindows + w] + Normal(0.02);
        domain.windows.push_back(
            {(first_loss + error) * kFirst, kFirst, (loss + shift + error) * kTokens, kTokens});
      }
    }
    Run(name, order, seed).heldout.push_back(score);
  }

  void Train(const std::string& name, v1::OrderMode order, uint64_t seed, double loss,
             double improvement = 0) {
    ArmResult& run = Run(name, order, seed);
    for (int step = 1; step <= 200; ++step) {
      v1::StepMetrics& metrics = run.metrics.emplace_back();
      metrics.set_step(step);
      metrics.set_num_tokens(2048 * step);
      metrics.set_loss_after_first_segment(loss + 4 * std::exp(-0.03 * step) -
                                           improvement * step / 200 + Normal(0.02));
    }
  }

  void Simple(const std::string& name, uint64_t seed, double loss) {
    Score(name, v1::SIMILARITY, ScoredRouting::kSegment, seed, loss, loss);
    Train(name, v1::SIMILARITY, seed, loss);
  }

  ArmResult& Run(const std::string& name, v1::OrderMode order, uint64_t seed) {
    const auto found = std::ranges::find_if(evidence_.results, [&](const ArmResult& result) {
      return result.arm == name && result.order == order && result.seed == seed;
    });
    if (found != evidence_.results.end()) return *found;
    return evidence_.results.emplace_back(ArmResult{.arm = name, .order = order, .seed = seed});
  }

  // Offsets of the loss of an arm on a domain.
  void Shift(const std::string& name, const std::string& domain, double shift) {
    shifts_[{name, domain}] = shift;
  }

  double Normal(double deviation) {
    return std::normal_distribution<double>(0, deviation)(random_);
  }
  const Evidence& evidence() const { return evidence_; }

 private:
  std::mt19937_64 random_;
  Evidence evidence_;
  std::vector<double> windows_;
  std::map<std::pair<std::string, std::string>, double> shifts_;
};

const ClaimPart& Part(const Claim& claim, std::string_view name) {
  const auto found = std::ranges::find(claim.parts, name, &ClaimPart::name);
  EXPECT_NE(found, claim.parts.end()) << name;
  return *found;
}

TEST(ClaimsTest, NothingMeasuredIsNotMeasured) {
  const std::vector<Claim> claims = EvaluateLoryClaims({}, kSettings);
  ASSERT_EQ(claims.size(), 10);
  for (size_t i = 0; i < claims.size(); ++i) {
    EXPECT_EQ(claims[i].number, static_cast<int>(i) + 1);
    EXPECT_EQ(claims[i].verdict, Verdict::kNotMeasured) << claims[i].name;
    EXPECT_TRUE(claims[i].sentence.starts_with("Not measured: ")) << claims[i].sentence;
  }
}

TEST(ClaimsTest, AnMoeBelowDenseIsShownWithItsGain) {
  Experiment experiment(1);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    experiment.Simple(arm::kDense, seed, 4.0 + 0.05 * static_cast<double>(seed));
    experiment.Simple(arm::kMoe, seed, 3.9 + 0.05 * static_cast<double>(seed));
  }
  const Claim claim = MoeBelowDense(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NEAR(claim.parts[0].estimate->effect, 0.1, 0.01);
  EXPECT_NEAR(claim.parts[1].estimate->effect, 0.1, 0.02);
  const ClaimPart& tokens = Part(claim, "tokens for the dense model's final loss");
  ASSERT_TRUE(tokens.estimate) << tokens.missing;
  EXPECT_LT(tokens.estimate->effect, 0.7);
  EXPECT_GT(tokens.estimate->effect, 0.3);
  EXPECT_EQ(Part(claim, "held-out, 16 experts").missing, "no run of experts-16");
  ASSERT_EQ(claim.series.size(), 3) << "losses of two arms, and the gain of one";
  for (const ClaimSeries& series : claim.series) {
    EXPECT_LE(series.values.size(), 100u);
    EXPECT_EQ(series.values.size(), series.x.size());
  }
}

TEST(ClaimsTest, AnMoeAboveDenseIsNotShown) {
  Experiment experiment(2);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    experiment.Simple(arm::kDense, seed, 4.0);
    experiment.Simple(arm::kMoe, seed, 4.1);
  }
  EXPECT_EQ(MoeBelowDense(experiment.evidence(), kSettings).verdict, Verdict::kNotShown);
}

TEST(ClaimsTest, OneSeedIsReported) {
  Experiment experiment(3);
  experiment.Simple(arm::kPrefix, 0, 4.0);
  experiment.Simple(arm::kMoe, 0, 3.9);
  const Claim claim = CausalAbovePrefix(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NE(claim.sentence.find("nats per token (\xC2\xB1"
                                "0.02 for one seed); training"),
            std::string::npos)
      << claim.sentence;
  EXPECT_TRUE(
      claim.sentence.ends_with("the intervals do not include the variation between seeds."));
  EXPECT_FALSE(NeedsSecondSeed(claim));
  EXPECT_EQ(SeedAllowance(claim.parts[0]), kSingleSeedAllowance);
  const ClaimPart& told = Part(claim, "held-out, dense minus prefix");
  EXPECT_EQ(SeedAllowance(told), 0) << "it was not measured";
}

TEST(ClaimsTest, LossesThatAreNotJudgedHaveTheAllowanceOfJudgedOnes) {
  Experiment experiment(3);
  for (const char* name : {arm::kDense, arm::kPrefix, arm::kMoe}) experiment.Simple(name, 0, 4.0);
  const ClaimPart told =
      Part(CausalAbovePrefix(experiment.evidence(), kSettings), "held-out, dense minus prefix");
  EXPECT_FALSE(told.rule);
  EXPECT_EQ(SeedAllowance(told), kSingleSeedAllowance);
  for (const char* name : {arm::kDense, arm::kPrefix, arm::kMoe}) experiment.Simple(name, 1, 4.0);
  EXPECT_EQ(SeedAllowance(Part(CausalAbovePrefix(experiment.evidence(), kSettings),
                               "held-out, dense minus prefix")),
            0);
}

TEST(ClaimsTest, EffectsWithOneNumberPerRunNeedASecondSeed) {
  Experiment experiment(6);
  for (const auto& [name, experts] :
       {std::pair(arm::kMoe, 8), std::pair(arm::kNoWarmup, 8), std::pair(arm::kExperts16, 16),
        std::pair(arm::kNoWarmup16, 16)}) {
    ArmResult& run = experiment.Run(name, v1::SIMILARITY, 0);
    run.num_experts = experts;
    run.metrics.emplace_back().set_step(10);
    run.metrics.back().add_routing()->set_active_experts(4);
  }
  const Claim claim = ExpertsAreUsed(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(NeedsSecondSeed(claim));
  EXPECT_EQ(PartText(claim.parts[0]), "0.000 of the experts (one seed, no interval)");
  EXPECT_NE(claim.sentence.find("have no interval and cannot be judged"), std::string::npos)
      << claim.sentence;
  EXPECT_EQ(claim.sentence.find("the intervals do not include"), std::string::npos);
  EXPECT_FALSE(Part(claim, "in use at the end, moe").is_difference);
}

TEST(ClaimsTest, FalsePositiveRateIsWithinItsBound) {
  constexpr int kTrials = 150;
  int shown = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Experiment experiment(1000 + trial);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      for (const char* name : {arm::kDense, arm::kMoe}) {
        const double loss = 4 + experiment.Normal(0.01);
        experiment.Score(name, v1::SIMILARITY, ScoredRouting::kSegment, seed, loss, loss);
      }
    }
    const auto estimate =
        HeldoutEffect(experiment.evidence(), {.arms = {{+1, arm::kDense}, {-1, arm::kMoe}}},
                      {.samples = 200, .seed = static_cast<uint64_t>(trial)});
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    shown += Judge(*estimate, {EffectRule::kPositive, kSmallestGain, kSingleSeedAllowance}) ==
             Verdict::kShown;
  }
  // The bound is 2.5 % plus three standard errors of 150 trials.
  EXPECT_LE(shown, 0.0633 * kTrials);
}

TEST(ClaimsTest, OrderIsJudgedByTheDifferenceOfGains) {
  Experiment experiment(4);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (const auto order : {v1::SIMILARITY, v1::RANDOM}) {
      const double gain = order == v1::SIMILARITY ? 0.1 : 0.02;
      const auto own = ScoredRouting::kSegment;
      experiment.Score(arm::kDense, order, own, seed, 4, 4);
      experiment.Score(arm::kMoe, order, own, seed, 4 - gain, 4);
      experiment.Train(arm::kDense, order, seed, 4);
      // The gain increases to twice its mean over the run.
      experiment.Train(arm::kMoe, order, seed, 4, 2 * gain);
    }
  }
  const Claim claim = SimilarityOrderMatters(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NEAR(claim.parts[0].estimate->effect, 0.16 * 0.75, 0.01);
  EXPECT_NEAR(claim.parts[1].estimate->effect, 0.08, 0.01);
  EXPECT_NEAR(claim.parts[2].estimate->effect, 0.2 * 0.6, 0.01);
  ASSERT_EQ(claim.series.size(), 2);
  EXPECT_EQ(claim.series[0].values.size(), 10);
}

TEST(ClaimsTest, ReportsWhichModelTheOrderChanges) {
  Experiment experiment(12);
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const auto score = [&](const char* name, v1::OrderMode order, double loss) {
      experiment.Score(name, order, ScoredRouting::kSegment, seed, loss, loss);
    };
    score(arm::kDense, v1::SIMILARITY, 4.22);
    score(arm::kDense, v1::RANDOM, 4.14);
    score(arm::kMoe, v1::SIMILARITY, 4.12);
    score(arm::kMoe, v1::RANDOM, 4.11);
  }
  const Claim claim = SimilarityOrderMatters(experiment.evidence(), kSettings);
  const auto effect = [&](const char* name) { return Part(claim, name).estimate->effect; };
  const double dense = effect("held-out, dense, random minus similarity order");
  const double moe = effect("held-out, MoE, random minus similarity order");
  EXPECT_NEAR(dense, -0.08, 0.01);
  EXPECT_NEAR(moe, -0.01, 0.008);
  EXPECT_NEAR(effect("held-out, dense in random minus MoE in similarity order"), 0.02, 0.01);
  EXPECT_NEAR(claim.parts[1].estimate->effect, moe - dense, 1e-9) << "the judged one";
  ASSERT_EQ(claim.cautions.size(), 1u);
  EXPECT_TRUE(claim.cautions[0].ends_with(": the dense model changed more, and neither improved."))
      << claim.cautions[0];
}

TEST(ClaimsTest, ExpertChoiceIsComparedInDistinctAndMajorityDomains) {
  Experiment experiment(5);
  experiment.Shift(arm::kExpertChoiceToken, "code", 0.1);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    experiment.Simple(arm::kExpertChoiceSegment, seed, 4.1);
    experiment.Simple(arm::kExpertChoiceToken, seed, 3.98);
    experiment.Simple(arm::kMoe, seed, 4.0);
  }
  const Claim claim = SoftMergingOrExpertChoice(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NEAR(Part(claim, "by token, code").estimate->effect, 0.08, 0.01);
  EXPECT_NEAR(Part(claim, "by token, news").estimate->effect, -0.02, 0.01);
  EXPECT_NEAR(claim.parts[2].estimate->effect, 0.1, 0.01);
  ASSERT_EQ(claim.cautions.size(), 1u);
  EXPECT_TRUE(claim.cautions[0].starts_with("Expert choice was not tuned"));
  EXPECT_EQ(claim.cautions[0].find("above that of the dense model"), std::string::npos)
      << "there is no dense model";
}

TEST(ClaimsTest, ReportsExpertChoiceAboveDense) {
  Experiment experiment(13);
  experiment.Simple(arm::kExpertChoiceSegment, 0, 4.5);
  experiment.Simple(arm::kExpertChoiceToken, 0, 3.95);
  experiment.Simple(arm::kMoe, 0, 3.9);
  experiment.Simple(arm::kDense, 0, 4.0);
  const Claim claim = SoftMergingOrExpertChoice(experiment.evidence(), kSettings);
  EXPECT_NEAR(Part(claim, "dense minus expert choice by segment").estimate->effect, -0.5, 0.01);
  EXPECT_NEAR(Part(claim, "dense minus expert choice by token").estimate->effect, 0.05, 0.01);
  EXPECT_NE(claim.cautions[0].find("nats per token (by segment)"), std::string::npos)
      << claim.cautions[0];
  EXPECT_EQ(claim.cautions[0].find("(by token)"), std::string::npos) << claim.cautions[0];
}

TEST(ClaimsTest, UtilizationIsComparedOverSeeds) {
  Experiment experiment(6);
  const auto measure = [&](const std::string& name, uint64_t seed, int experts, int active) {
    ArmResult& run = experiment.Run(name, v1::SIMILARITY, seed);
    run.num_experts = experts;
    v1::StepMetrics& step = run.metrics.emplace_back();
    step.set_step(10);
    for (int layer = 0; layer < 4; ++layer) step.add_routing()->set_active_experts(active);
  };
  for (uint64_t seed = 0; seed < 3; ++seed) {
    measure(arm::kMoe, seed, 8, 7);
    measure(arm::kNoWarmup, seed, 8, 4 - (seed == 2));
    measure(arm::kExperts16, seed, 16, 12);
    measure(arm::kNoWarmup16, seed, 16, 12);
  }
  const Claim claim = ExpertsAreUsed(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.parts[0].verdict, Verdict::kShown);
  EXPECT_DOUBLE_EQ(claim.parts[0].estimate->effect, 7.0 / 8 - 0.5);
  EXPECT_EQ(claim.parts[1].verdict, Verdict::kShown);
  EXPECT_EQ(claim.parts[2].verdict, Verdict::kNotShown);
  EXPECT_EQ(claim.verdict, Verdict::kNotShown);
}

TEST(ClaimsTest, SpecializationIsComparedWithLayerZeroAndRandomOrder) {
  Experiment experiment(7);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    experiment.Run(arm::kMoe, v1::SIMILARITY, seed).routing = {
        {"code", {{0.5, 0.5}, {0.9 + noise, 0.1 - noise}}}, {"news", {{0.5, 0.5}, {0.1, 0.9}}}};
    experiment.Run(arm::kMoe, v1::RANDOM, seed).routing = {{"code", {{0.5, 0.5}, {0.6, 0.4}}},
                                                           {"news", {{0.5, 0.5}, {0.5, 0.5}}}};
  }
  const Claim claim = ExpertsSpecialize(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_EQ(claim.series.front().values.size(), 2);
  // Two curves, and a row of the heat map for each of two layers and two domains.
  EXPECT_EQ(claim.series.size(), 6);
}

TEST(ClaimsTest, DistinctDomainsAreChosenByTheCorpusAlone) {
  Experiment experiment(8);
  experiment.Simple(arm::kMoe, 0, 4);
  const DomainContrast contrast = ContrastDomains(experiment.evidence());
  EXPECT_EQ(contrast.distinct, (std::set<std::string>{"code"}));
  EXPECT_EQ(contrast.majority, (std::set<std::string>{"news"}));
  EXPECT_TRUE(ContrastDomains({}).distinct.empty());
}

TEST(ClaimsTest, DistinctDomainsGainMost) {
  Experiment experiment(9);
  experiment.Shift(arm::kMoe, "code", -0.2);
  experiment.Shift(arm::kMoe, "news", -0.05);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    experiment.Simple(arm::kDense, seed, 4);
    experiment.Simple(arm::kMoe, seed, 4);
  }
  const Claim claim = DistinctDomainsGainMost(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NEAR(claim.parts[0].estimate->effect, 0.15, 0.01);
  ASSERT_EQ(claim.notes.size(), 1);
  EXPECT_NE(claim.notes[0].find(
                "lowest third: code (0.200). Most similar, the highest third: news (0.800)."),
            std::string::npos);
}

TEST(ClaimsTest, RoutingIsComparedOnTheSameModel) {
  Experiment experiment(10);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto score = [&](ScoredRouting routing, double loss) {
      experiment.Score(arm::kMoe, v1::SIMILARITY, routing, seed, loss, loss);
    };
    score(ScoredRouting::kSegment, 3.75);
    score(ScoredRouting::kPrompt, 3.76);
    score(ScoredRouting::kAverage, 4.16);
    score(ScoredRouting::kUniform, 4.20);
    score(ScoredRouting::kOtherDomain, 4.33);
  }
  EXPECT_EQ(PromptRoutingIsEnough(experiment.evidence(), kSettings).verdict, Verdict::kShown);
  EXPECT_EQ(RoutingMatters(experiment.evidence(), kSettings).verdict, Verdict::kShown);
}

TEST(ClaimsTest, ALeakIsAGainOnlyInTheFirstSegment) {
  Experiment experiment(11);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto own = ScoredRouting::kSegment;
    experiment.Score(arm::kDense, v1::SIMILARITY, own, seed, 4.0, 4.5);
    experiment.Score(arm::kMoe, v1::SIMILARITY, own, seed, 3.9, 4.3);
    experiment.Score(arm::kUniformFirst, v1::SIMILARITY, own, seed, 3.9, 4.4);
  }
  const Claim claim = FirstSegmentLeaks(experiment.evidence(), kSettings);
  EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
  EXPECT_NEAR(claim.parts[0].estimate->effect, 0.1, 0.01);
  EXPECT_NEAR(claim.parts[1].estimate->effect, 0.1, 0.01);
}

}  // namespace claims_test
}  // namespace braid
