// Runs whose layers mix (MoLEx): gates, resumes, and decisions that ranks make together.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runs/run_spec.h"
#include "tests/trainer/finetuning_fixture.h"
#include "trainer/training_state.h"

namespace braid {
namespace mixed_runs_test {

using MixedRunsTest = FinetuningFixture;

// Returns the parameters of layer mixing, by name.
std::map<std::string, std::vector<float>> GatesOf(LanguageModel& model) {
  std::map<std::string, std::vector<float>> gates;
  for (const Parameter& p : model.parameters()) {
    if (p.name.find("layer_mixing") == std::string::npos) continue;
    gates[p.name] = {p.value.begin(), p.value.end()};
  }
  return gates;
}

v1::RunSpec WithMixing(v1::RunSpec spec, v1::LayerMixing::Gate gate) {
  v1::LayerMixing* const mixing = spec.mutable_model()->mutable_layer_mixing();
  mixing->set_alpha(0.7);
  mixing->set_gate(gate);
  mixing->set_learn_alpha(true);
  mixing->set_weight(v1::LayerMixing::PROBABILITY);
  return ResolveRunSpec(spec).value();
}

TEST_F(MixedRunsTest, LayersThatMixStoreTheirGatesAndResumeToTheSameBits) {
  for (const auto gate : {v1::LayerMixing::LEARNED, v1::LayerMixing::FROZEN}) {
    v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 11);
    spec.mutable_checkpoint()->set_every_steps(3);
    spec = WithMixing(spec, gate);
    const auto initial = GatesOf(*InitialState(spec, 0).value().model);
    const RunDirectory whole = Trained(spec);
    const auto trained = GatesOf(*LoadModel(NewestOf(whole)).value());
    EXPECT_EQ(trained.size(), 3u);
    for (const auto& [name, values] : trained) {
      const bool moves = gate == v1::LayerMixing::LEARNED || name.ends_with("alpha");
      EXPECT_EQ(values != initial.at(name), moves) << name;
    }
    for (const bool self_contained : {false, true}) {
      spec.mutable_finetuning()->set_self_contained(self_contained);
      const RunDirectory run(NewDirectory("stopped"));
      ASSERT_OK(run.WriteSpec(spec));
      EXPECT_EQ(TrainAlone(run, spec, 4).value(), TrainingOutcome::kInterrupted);
      ASSERT_OK(TrainAlone(run, spec));
      EXPECT_EQ(LossLines(run), LossLines(whole));
      EXPECT_EQ(GatesOf(*LoadModel(NewestOf(run)).value()), trained);
    }
    // A run may start from a run whose layers mix, and keeps their settings.
    const v1::RunSpec next = TinyAdapterSpec(packed_, whole, 2);
    EXPECT_EQ(next.model().layer_mixing().SerializeAsString(),
              spec.model().layer_mixing().SerializeAsString());
    EXPECT_EQ(GatesOf(*InitialState(next, 0).value().model), trained);
  }
}

// Trains with as many ranks as the spec has, as threads.
RunDirectory TrainedOnRanks(const v1::RunSpec& spec) {
  RunDirectory run(NewDirectory("ranks"));
  EXPECT_OK(TrainOnRanks(run, spec));
  return run;
}

void ExpectSameLosses(const RunDirectory& run, const std::vector<v1::StepMetrics>& expected,
                      const std::string& what) {
  const auto got = *run.ReadMetrics(0);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss(), expected[i].loss(), 2e-5 * expected[i].loss()) << what << i;
    EXPECT_NEAR(got[i].gradient_norm(), expected[i].gradient_norm(),
                1e-3 * expected[i].gradient_norm())
        << what << i;
  }
}

TEST_F(MixedRunsTest, RanksGiveMixedLayersTheSameCurveAndTheSameChoices) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 8);
  spec.set_routing_every_steps(4);
  spec = WithMixing(spec, v1::LayerMixing::LEARNED);
  const auto expected = *Trained(spec).ReadMetrics(0);
  spec.set_world_size(2);
  spec.mutable_batch()->set_micro_batch_size(1);
  const RunDirectory run = TrainedOnRanks(spec);
  ExpectSameLosses(run, expected, "");
  const auto got = *run.ReadMetrics(0);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].layer_choices_size(), (i + 1) % 4 == 0 ? 2 : 0);
    for (int layer = 0; layer < got[i].layer_choices_size(); ++layer) {
      // Whole numbers divided by a whole number: no bit depends on the ranks.
      EXPECT_EQ(got[i].layer_choices(layer).SerializeAsString(),
                expected[i].layer_choices(layer).SerializeAsString());
      EXPECT_EQ(got[i].layer_choices(layer).layer(), layer);
      EXPECT_NEAR(got[i].layer_choices(layer).shares(0) + got[i].layer_choices(layer).shares(1), 1,
                  1e-12);
    }
  }
}

TEST_F(MixedRunsTest, RanksDecideTogetherForTheWholeBatch) {
  for (const auto decision : {v1::LayerMixing::BATCH_MODE, v1::LayerMixing::BATCH_MEAN}) {
    v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 8);
    spec.clear_validation();
    spec.set_routing_every_steps(1);
    v1::LayerMixing* const mixing = spec.mutable_model()->mutable_layer_mixing();
    mixing->set_decision(decision);
    mixing->set_balance_loss(0.1);
    spec = WithMixing(spec, v1::LayerMixing::LEARNED);
    const RunDirectory alone = Trained(spec);
    const auto expected = *alone.ReadMetrics(0);
    for (const int world_size : {2, 3}) {
      spec.set_world_size(world_size);
      // Sums of gradients during the backward pass must not meet those of the choices.
      spec.mutable_reduction()->set_after_backward(world_size == 3);
      const RunDirectory together = TrainedOnRanks(spec);
      ExpectSameLosses(together, expected, absl::StrCat(world_size, " ranks, step "));
      const auto got = *together.ReadMetrics(0);
      for (size_t i = 0; i < got.size(); ++i) {
        for (int layer = 0; layer < 2; ++layer) {
          // All positions of the batch choose the same layer.
          EXPECT_THAT(got[i].layer_choices(layer).shares(), testing::Contains(1.0));
          EXPECT_EQ(got[i].layer_choices(layer).SerializeAsString(),
                    expected[i].layer_choices(layer).SerializeAsString());
        }
      }
    }
  }
}

TEST_F(MixedRunsTest, MixedLayersThatCannotBeTrainedAreRefused) {
  v1::RunSpec full = TinyDenseSpec(text_, 2);
  full.set_init_from(NewestOf(base()).string());
  const v1::RunSpec mixed = WithMixing(full, v1::LayerMixing::LEARNED);
  const RunDirectory run = Trained(mixed);
  EXPECT_EQ(GatesOf(*LoadModel(NewestOf(run)).value()).size(), 3u);
  // The weights have a gate of another shape.
  v1::RunSpec asked = TinyAdapterSpec(packed_, run, 2);
  asked.mutable_model()->mutable_layer_mixing()->set_score(v1::LayerMixing::COSINE);
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "model.layer_mixing: model.layer_mixing.gate.weight got shape [2, 8], expected "
               "[2, 16]");
  // Its dense FFNs would become experts.
  asked = v1::RunSpec();
  asked.set_dataset_dir(text_.string());
  asked.set_num_steps(2);
  asked.set_init_from(NewestOf(run).string());
  asked.mutable_model()->mutable_routing()->set_router(v1::CAUSAL_SEGMENT);
  asked.mutable_model()->mutable_routing()->set_num_experts(2);
  asked.mutable_model()->mutable_routing()->set_segment_length(8);
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument, "init_from",
               "its gate was trained for the FFNs that it has");
  // The whole batch decides.
  asked = TinyAdapterSpec(packed_, base(), 2);
  asked.mutable_model()->mutable_layer_mixing()->set_decision(v1::LayerMixing::BATCH_MODE);
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "model.layer_mixing.decision: got BATCH_MODE with validation");
  asked.clear_validation();
  EXPECT_OK(ResolveRunSpec(asked));
  asked.mutable_batch()->set_micro_batch_size(1);
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "expected one micro-batch on each rank");
  asked.set_world_size(asked.batch().global_batch_size());
  EXPECT_OK(ResolveRunSpec(asked));
}

}  // namespace mixed_runs_test
}  // namespace braid
