// Complete runs with every router, and with experts in some layers only.
#include <cmath>
#include <string>
#include <vector>

#include "evaluation/score_summary.h"
#include "evaluation/text_score.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_loop.h"

namespace braid {
namespace router_runs_test {

namespace fs = std::filesystem;

struct RouterCase {
  std::string name;
  v1::Router router;
  std::vector<int> moe_layers;
  double dense_fraction = 0;
  // TOKEN_CHOICE only.
  v1::TokenRouting::Gate gate = v1::TokenRouting::GATE_UNSPECIFIED;
  double balance_loss = 0;
  bool segments_by_document = false;
  double gate_noise = 0;
  v1::DropoutConfig::Kind dropout = v1::DropoutConfig::KIND_UNSPECIFIED;  // none
};

void PrintTo(const RouterCase& c, std::ostream* out) { *out << c.name; }

class RouterRunsTest : public testing::TestWithParam<RouterCase> {
 protected:
  RouterRunsTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  v1::RunSpec Spec(int64_t num_steps) const {
    v1::RunSpec spec = TinySpec(dataset_, num_steps);
    v1::RoutingConfig* routing = spec.mutable_model()->mutable_routing();
    routing->set_router(GetParam().router);
    if (GetParam().router == v1::TOKEN_CHOICE) {
      routing->mutable_token()->set_gate(GetParam().gate);
      routing->mutable_token()->set_balance_loss(GetParam().balance_loss);
      routing->mutable_token()->set_gate_noise_std(GetParam().gate_noise);
    }
    if (GetParam().gate == v1::TokenRouting::RELU) routing->mutable_token()->set_l1_start(1e-3);
    if (GetParam().dropout != v1::DropoutConfig::KIND_UNSPECIFIED) {
      spec.mutable_model()->mutable_dropout()->set_kind(GetParam().dropout);
      spec.mutable_model()->mutable_dropout()->set_rate(0.1);
    }
    if (GetParam().segments_by_document) {
      routing->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
    }
    routing->mutable_moe_layers()->Assign(GetParam().moe_layers.begin(),
                                          GetParam().moe_layers.end());
    spec.mutable_upcycling()->set_dense_fraction(GetParam().dense_fraction);
    return ResolveRunSpec(spec).value();
  }

  size_t NumMoeLayers() const {
    return GetParam().moe_layers.empty() ? 2 : GetParam().moe_layers.size();
  }

  static std::vector<v1::StepMetrics> Metrics(const RunDirectory& run) {
    auto metrics = run.ReadMetrics(0);
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    return *std::move(metrics);
  }

  std::vector<v1::StepMetrics> MetricsOfRanks(v1::RunSpec spec, int world_size) const {
    spec.set_world_size(world_size);
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(TrainOnRanks(run, spec));
    return Metrics(run);
  }

  fs::path dataset_;
};

TEST_P(RouterRunsTest, LearnsAndMeasuresItsLayers) {
  const RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, Spec(40)), TrainingOutcome::kComplete);
  const auto metrics = Metrics(run);
  EXPECT_LT(metrics.back().loss(), metrics.front().loss() - 0.4);
  const v1::StepMetrics& last = metrics.back();
  ASSERT_EQ(last.routing_size(), static_cast<int>(NumMoeLayers()));
  for (size_t i = 0; i < NumMoeLayers(); ++i) {
    const v1::LayerRouting& layer = last.routing(static_cast<int>(i));
    EXPECT_EQ(layer.layer(), MoeLayers(Spec(40).model())[i]);
    EXPECT_GT(layer.entropy(), 0);
    EXPECT_LE(layer.entropy(), std::log(4) + 1e-6);
    EXPECT_GE(layer.effective_experts(), 1);
    EXPECT_LE(layer.active_experts(), 4);
    EXPECT_LT(layer.expert_cosine(), 1);
  }
}

TEST_P(RouterRunsTest, ResumeIsBitExact) {
  const v1::RunSpec spec = Spec(12);
  const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(whole, spec), TrainingOutcome::kComplete);
  ASSERT_EQ(*TrainAlone(stopped, spec, 7), TrainingOutcome::kInterrupted);
  ASSERT_EQ(*TrainAlone(stopped, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
}

TEST_P(RouterRunsTest, TwoRanksGiveTheCurveAndTheHealthOfOne) {
  const auto alone = MetricsOfRanks(Spec(15), 1), together = MetricsOfRanks(Spec(15), 2);
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(together[i].loss(), alone[i].loss(), 1e-5 * alone[i].loss()) << i;
    EXPECT_NEAR(together[i].balance_loss(), alone[i].balance_loss(), 1e-4) << i;
    EXPECT_DOUBLE_EQ(together[i].l1_coefficient(), alone[i].l1_coefficient()) << i;
    ASSERT_EQ(together[i].routing_size(), alone[i].routing_size());
    for (int layer = 0; layer < alone[i].routing_size(); ++layer) {
      const v1::LayerRouting &a = alone[i].routing(layer), &b = together[i].routing(layer);
      // The first gradients of a router are rounding errors, because experts start as copies.
      EXPECT_NEAR(a.entropy(), b.entropy(), 1e-3);
      EXPECT_EQ(a.active_experts(), b.active_experts());
      EXPECT_NEAR(a.expert_cosine(), b.expert_cosine(), 1e-3);
    }
  }
}

TEST_P(RouterRunsTest, CheckpointIsEvaluated) {
  if (GetParam().gate == v1::TokenRouting::RANDOM) GTEST_SKIP() << "needs all experts";
  const RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, Spec(8)), TrainingOutcome::kComplete);
  const auto model = LoadModel(run.checkpoints() / "step-00000008");
  ASSERT_TRUE(model.ok()) << model.status();
  const TokenBytes bytes{.of_token = std::vector<int32_t>(64, 1), .takes_dummy_space = {}};
  const auto text = HeldoutText(dataset_, *ReadDatasetInfo(dataset_), bytes, 0);
  ASSERT_TRUE(text.ok()) << text.status();
  for (const MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
    const auto score = ScoreText(**model, *text, {.mode = mode}, [](int64_t) {});
    ASSERT_TRUE(score.ok()) << score.status();
    const v1::Evaluation evaluation = SummarizeScore(*score, (*model)->config(), {});
    EXPECT_LT(evaluation.total().loss(), std::log(64) + 1);
    ASSERT_EQ(evaluation.total().routing_size(), static_cast<int>(NumMoeLayers()));
    double sum = 0;
    for (double weight : evaluation.total().routing(0).weights()) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Routers, RouterRunsTest,
    testing::Values(
        RouterCase{"Causal", v1::CAUSAL_SEGMENT, {}},
        RouterCase{"CausalSecondLayer", v1::CAUSAL_SEGMENT, {1}, 0.25},
        RouterCase{.name = "CausalByDocument",
                   .router = v1::CAUSAL_SEGMENT,
                   .moe_layers = {},
                   .segments_by_document = true},
        RouterCase{"Prefix", v1::PREFIX, {}, 0.25},
        RouterCase{"SegmentChoice", v1::EXPERT_CHOICE_SEGMENT, {}},
        RouterCase{"TokenChoiceFirstLayer", v1::EXPERT_CHOICE_TOKEN, {0}},
        RouterCase{"TokenChoiceAfterDenseSteps", v1::EXPERT_CHOICE_TOKEN, {}, 0.25},
        RouterCase{"LearnedGate", v1::TOKEN_CHOICE, {}, 0, v1::TokenRouting::LINEAR, 0.02},
        RouterCase{"FrozenGateSecondLayer", v1::TOKEN_CHOICE, {1}, 0, v1::TokenRouting::FROZEN},
        RouterCase{
            "KeyMeanGateAfterDenseSteps", v1::TOKEN_CHOICE, {}, 0.25, v1::TokenRouting::KEY_MEAN},
        RouterCase{"RandomGate", v1::TOKEN_CHOICE, {}, 0, v1::TokenRouting::RANDOM},
        RouterCase{"ReluGate", v1::TOKEN_CHOICE, {}, 0, v1::TokenRouting::RELU},
        RouterCase{.name = "CosineGateDropsExperts",
                   .router = v1::TOKEN_CHOICE,
                   .moe_layers = {},
                   .gate = v1::TokenRouting::COSINE,
                   .dropout = v1::DropoutConfig::EXPERTS},
        RouterCase{.name = "HashGateDropsUnits",
                   .router = v1::TOKEN_CHOICE,
                   .moe_layers = {},
                   .gate = v1::TokenRouting::HASH,
                   .dropout = v1::DropoutConfig::BERNOULLI},
        RouterCase{.name = "LearnedGateWithNoise",
                   .router = v1::TOKEN_CHOICE,
                   .moe_layers = {},
                   .gate = v1::TokenRouting::LINEAR,
                   .gate_noise = 0.5}),
    [](const auto& test) { return test.param.name; });

}  // namespace router_runs_test
}  // namespace braid
