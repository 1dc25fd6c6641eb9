// Runs with every gate of experts that tokens choose, with every kind of dropout, and with the
// penalty of the gate RELU.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/run_spec.h"
#include "tests/trainer/finetuning_fixture.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace token_gate_runs_test {

namespace fs = std::filesystem;

// A run whose training has every random number and the states that resuming must restore.
v1::RunSpec RandomSpec(const fs::path& dataset, v1::TokenRouting::Gate gate,
                       v1::DropoutConfig::Kind dropout) {
  v1::RunSpec spec = TinySpec(dataset, 14);
  v1::RoutingConfig* routing = spec.mutable_model()->mutable_routing();
  routing->set_num_experts(8);
  routing->set_router(v1::TOKEN_CHOICE);
  routing->mutable_token()->set_gate(gate);
  if (gate == v1::TokenRouting::RELU) routing->mutable_token()->set_l1_start(1e-3);
  if (gate == v1::TokenRouting::RANDOM) spec.mutable_model()->set_consistency_loss(2);
  if (gate == v1::TokenRouting::LINEAR) routing->mutable_token()->set_gate_noise_std(0.5);
  spec.mutable_upcycling()->set_dense_fraction(0);
  spec.mutable_model()->mutable_dropout()->set_kind(dropout);
  spec.mutable_model()->mutable_dropout()->set_rate(0.2);
  if (dropout == v1::DropoutConfig::DROP_BLOCK) {
    spec.mutable_model()->mutable_dropout()->set_block_size(3);
  }
  return ResolveRunSpec(spec).value();
}

TEST(TokenGateRunsTest, ResumeWithEveryGateAndDropoutIsBitExact) {
  using Gate = v1::TokenRouting;
  using Dropout = v1::DropoutConfig;
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const std::pair<Gate::Gate, Dropout::Kind> cases[] = {{Gate::LINEAR, Dropout::BERNOULLI},
                                                        {Gate::RELU, Dropout::CONCRETE},
                                                        {Gate::COSINE, Dropout::EXPERTS},
                                                        {Gate::HASH, Dropout::DROP_BLOCK},
                                                        {Gate::RANDOM, Dropout::BERNOULLI}};
  for (const auto& [gate, dropout] : cases) {
    const v1::RunSpec spec = RandomSpec(dataset, gate, dropout);
    const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
    ASSERT_EQ(*TrainAlone(whole, spec), TrainingOutcome::kComplete);
    ASSERT_EQ(*TrainAlone(stopped, spec, 9), TrainingOutcome::kInterrupted);
    ASSERT_EQ(*TrainAlone(stopped, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(stopped), LossLines(whole)) << gate;
    EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole)) << gate;
    const v1::StepMetrics last = stopped.ReadMetrics(0)->back();
    EXPECT_EQ(last.consistency() > 0, gate == Gate::RANDOM);
    ASSERT_EQ(last.dropout_rates_size(), dropout == Dropout::CONCRETE ? 2 : 0);
    if (dropout != Dropout::CONCRETE) continue;
    EXPECT_NE(last.dropout_rates(0), last.dropout_rates(1));
  }
}

TEST(TokenGateRunsTest, ARunFromExpertsTakesTheSettingsOfTheirTraining) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  for (const auto gate : {v1::TokenRouting::RANDOM, v1::TokenRouting::COSINE}) {
    const v1::RunSpec spec = RandomSpec(dataset, gate, v1::DropoutConfig::EXPERTS);
    v1::RunSpec asked;
    asked.set_dataset_dir(dataset.string());
    asked.set_num_steps(2);
    asked.set_init_from(NewestOf(Trained(spec)).string());
    const v1::ModelConfig got = ResolveRunSpec(asked)->model(), have = spec.model();
    EXPECT_EQ(got.dropout().kind(), v1::DropoutConfig::EXPERTS);
    EXPECT_EQ(got.dropout().DebugString(), have.dropout().DebugString());
    EXPECT_EQ(got.consistency_loss(), have.consistency_loss());
  }
}

// Every step with experts is a spike, which takes the run back to before the upcycling.
TEST(TokenGateRunsTest, SpikesInARowAreCountedThroughRollbacksBeforeTheUpcycling) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = RandomSpec(dataset, v1::TokenRouting::RELU, v1::DropoutConfig::BERNOULLI);
  spec.set_num_steps(40);
  spec.mutable_model()->mutable_routing()->mutable_token()->set_l1_start(1e300);
  spec.mutable_upcycling()->set_dense_fraction(0.1);
  spec.mutable_spikes()->set_policy(v1::ROLLBACK);
  const RunDirectory run(NewDirectory("run"));
  const auto outcome = TrainAlone(run, ResolveRunSpec(spec).value());
  EXPECT_THAT(std::string(outcome.status().message()),
              testing::HasSubstr("the 10th loss spike in a row"));
  EXPECT_LE(run.ReadMetrics(0)->size(), 15u);
}

// arXiv 2412.14711, section 3.2: the coefficient follows the experts in use of the step before.
TEST(TokenGateRunsTest, ReluPenaltyDrivesTheExpertsInUseTowardsTheirTarget) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = RandomSpec(dataset, v1::TokenRouting::RELU, v1::DropoutConfig::BERNOULLI);
  spec.mutable_model()->mutable_dropout()->set_rate(0);
  spec.set_num_steps(150);
  spec.mutable_model()->mutable_routing()->mutable_token()->set_active_experts(2);
  spec = ResolveRunSpec(spec).value();
  const RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  const std::vector<v1::StepMetrics> steps = run.ReadMetrics(0).value();
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const double now = steps[i].mean_active_experts(), l1 = steps[i].l1_coefficient();
    EXPECT_NEAR(steps[i + 1].l1_coefficient(),
                now > 2   ? l1 * 1.2
                : now < 2 ? l1 / 1.2
                          : l1,
                1e-9 * l1);
  }
  EXPECT_GT(steps.front().mean_active_experts(), 3);
  double late = 0;
  for (size_t i = steps.size() - 50; i < steps.size(); ++i) {
    late += steps[i].mean_active_experts() / 50;
  }
  EXPECT_LT(late, 3);
  EXPECT_GT(late, 1);
}

}  // namespace token_gate_runs_test
}  // namespace braid
