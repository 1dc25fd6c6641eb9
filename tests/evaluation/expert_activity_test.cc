#include "evaluation/expert_activity.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/choice_drift.h"
#include "formats/indexed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/unit_activations.h"
#include "runs/checkpoint_directory.h"
#include "runs/model_path.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace expert_activity_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kUnits = 32;
const auto kIgnoreProgress = [](int64_t, int64_t) {};

v1::ExpertSplit Split(int num_experts, v1::ExpertSplit::Method method, int active) {
  v1::ExpertSplit split;
  split.set_num_experts(num_experts);
  split.set_method(method);
  split.set_active_experts(active);
  return split;
}

class ExpertActivityTest : public testing::Test {
 protected:
  static const RunDirectory& Base() {
    static const RunDirectory base = TrainedOn({});
    return base;
  }
  static RunDirectory TrainedOn(const TinyData& data) {
    const fs::path dataset = NewDirectory("data");
    WriteTinyDataset(dataset, data);
    RunDirectory run(NewDirectory("run"));
    const v1::RunSpec spec = TinyDenseSpec(dataset, 60);
    BRAID_CHECK(run.WriteSpec(spec).ok() && TrainAlone(run, spec).ok());
    return run;
  }
  static fs::path Dataset() { return Base().ReadSpec()->dataset_dir(); }
  static std::unique_ptr<LanguageModel> Model() {
    return LoadModel(FindModel(Base().root(), true)->checkpoint).value();
  }
  static absl::StatusOr<v1::ExpertActivity> Measure(LanguageModel& model,
                                                    const v1::ExpertSplit& split) {
    ASSIGN_OR_RETURN(const ExpertActivityOptions options, ExpertsToMeasure(model, split, {}));
    return MeasureExpertActivity(model, Dataset(), options, kIgnoreProgress);
  }
};

// The sums over one window at a time, unit by unit.
TEST_F(ExpertActivityTest, AgreesWithOneTokenAtATime) {
  const auto model = Model();
  constexpr int kExperts = 4, kActive = 1, kWidth = kUnits / kExperts;
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity activity,
                       Measure(*model, Split(kExperts, v1::ExpertSplit::CONTIGUOUS, kActive)));
  for (int layer = 0; layer < 2; ++layer) {
    double mass = 0, all_mass = 0, active = 0, all_active = 0, tokens = 0;
    std::vector<double> odd(kExperts);
    for (const std::string domain : {"even", "odd"}) {
      const auto windows = IndexedDataset::Open(Dataset() / "heldout" / domain).value();
      for (int64_t w = 0; w < windows.num_sequences(); ++w) {
        std::vector<int32_t> ids = windows.Read(w);
        ids.pop_back();
        ASSERT_OK(VisitUnits(*model, ids, 1, std::vector<int>{layer}, [&](const auto& seen) {
          for (size_t t = 0; t < ids.size(); ++t, ++tokens) {
            const float *gate = &seen.gate[t * kUnits], *hidden = &seen.hidden[t * kUnits];
            std::vector<double> key(kExperts), of(kExperts), on(kExperts);
            for (int u = 0; u < kUnits; ++u) {
              key[u / kWidth] += gate[u];
              of[u / kWidth] += std::abs(hidden[u]);
              on[u / kWidth] += gate[u] > 0;
            }
            const auto best = std::ranges::max_element(key) - key.begin();
            mass += of[best];
            active += on[best];
            odd[best] += domain == "odd";
            all_mass += std::accumulate(of.begin(), of.end(), 0.0);
            all_active += std::accumulate(on.begin(), on.end(), 0.0);
          }
        }));
      }
    }
    EXPECT_EQ(activity.num_tokens(), tokens);
    EXPECT_NEAR(activity.layers(layer).mass_share(), mass / all_mass, 1e-3);
    EXPECT_NEAR(activity.layers(layer).active_share(), active / all_active, 1e-3);
    const v1::DomainRouting& domain = activity.layers(layer).domains(1);
    EXPECT_EQ(domain.domain(), "odd");
    const double num_odd = std::accumulate(odd.begin(), odd.end(), 0.0);
    EXPECT_EQ(domain.num_decisions(), num_odd);
    for (int e = 0; e < kExperts; ++e) EXPECT_NEAR(domain.weights(e), odd[e] / num_odd, .02);
  }
}

TEST_F(ExpertActivityTest, ClustersOfKeysHoldMoreThanRandomGroups) {
  const auto model = Model();
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity keys,
                       Measure(*model, Split(8, v1::ExpertSplit::KEYS, 2)));
  EXPECT_EQ(keys.num_experts(), 8);
  EXPECT_EQ(keys.active_experts(), 2);
  ASSERT_EQ(keys.layers_size(), 2);
  for (const v1::LayerExpertActivity& layer : keys.layers()) {
    EXPECT_GT(layer.mass_share(), layer.random_mass_share()) << layer.layer();
    EXPECT_GT(layer.active_share(), layer.random_active_share()) << layer.layer();
    EXPECT_GT(layer.random_mass_share(), .25) << "the groups with the highest keys are chosen";
  }
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity all,
                       Measure(*model, Split(8, v1::ExpertSplit::KEYS, 8)));
  EXPECT_NEAR(all.layers(1).mass_share(), 1, 1e-9);
  EXPECT_NEAR(all.layers(1).random_active_share(), 1, 1e-9);
}

// Returns half the sum of the differences of two distributions, 0 to 1.
double DistanceOfShares(const v1::DomainRouting& a, const v1::DomainRouting& b) {
  double sum = 0;
  for (int e = 0; e < a.weights_size(); ++e) sum += std::abs(a.weights(e) - b.weights(e));
  return sum / 2;
}

// Windows of two topics use other experts, and windows of two halves that mix the topics the same.
TEST_F(ExpertActivityTest, TopicsUseOtherClustersOfKeys) {
  const RunDirectory run = TrainedOn({.num_even = 48, .num_odd = 48, .topics = true});
  const fs::path dataset = run.ReadSpec()->dataset_dir();
  const auto model = LoadModel(FindModel(run.root(), true)->checkpoint).value();
  ASSERT_OK_AND_ASSIGN(ExpertActivityOptions options,
                       ExpertsToMeasure(*model, Split(8, v1::ExpertSplit::KEYS, 2), {}));
  options.tasks = {{.task = "first", .prompts = {}}, {.task = "second", .prompts = {}}};
  for (const std::string domain : {"even", "odd"}) {
    const auto windows = IndexedDataset::Open(dataset / "heldout" / domain).value();
    for (int64_t w = 0; w < windows.num_sequences(); ++w) {
      std::vector<int32_t> ids = windows.Read(w);
      ids.pop_back();
      options.tasks[w % 2].prompts.push_back(std::move(ids));
    }
  }
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity activity,
                       MeasureExpertActivity(*model, dataset, options, kIgnoreProgress));
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    ASSERT_EQ(layer.domains_size(), 4);
    EXPECT_GT(DistanceOfShares(layer.domains(0), layer.domains(1)),
              2 * DistanceOfShares(layer.domains(2), layer.domains(3)))
        << layer.layer();
    EXPECT_GT(layer.mass_share(), layer.random_mass_share()) << layer.layer();
    EXPECT_GT(layer.active_share(), layer.random_active_share()) << layer.layer();
  }
}

// The first layer of a model that is split has the same inputs as that of the dense one.
TEST_F(ExpertActivityTest, ModelsWithExpertsAreMeasuredAsTheyRoute) {
  const auto dense = Model();
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity expected,
                       Measure(*dense, Split(4, v1::ExpertSplit::CONTIGUOUS, 2)));
  v1::ModelConfig config = dense->config();
  config.mutable_routing()->Clear();
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->set_num_experts(4);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::KEY_MEAN);
  config.mutable_routing()->mutable_token()->set_combine_weights(v1::TokenRouting::ONES);
  const auto routed = LanguageModel::Create(ResolveModelConfig(config).value(), 0).value();
  ASSERT_EQ(routed->values().size(), dense->values().size());
  std::ranges::copy(dense->values(), routed->values().begin());
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity got, Measure(*routed, {}));
  EXPECT_EQ(got.active_experts(), 2);
  EXPECT_NEAR(got.layers(0).mass_share(), expected.layers(0).mass_share(), 1e-3);
  EXPECT_NEAR(got.layers(0).random_mass_share(), expected.layers(0).random_mass_share(), 1e-3);
  EXPECT_NE(got.layers(1).mass_share(), expected.layers(1).mass_share()) << "layer 0 is routed";

  v1::ExpertSplit split;
  split.set_active_experts(1);
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity one, Measure(*routed, split));
  EXPECT_EQ(one.active_experts(), 1);
  EXPECT_LT(one.layers(0).mass_share(), got.layers(0).mass_share());
  split.set_gate(v1::TokenRouting::LINEAR);
  EXPECT_FAILS(Measure(*routed, split).status(), absl::StatusCode::kInvalidArgument,
               "experts of its own");
  EXPECT_FAILS(Measure(*routed, Split(4, v1::ExpertSplit::KEYS, 2)).status(),
               absl::StatusCode::kInvalidArgument, "experts of its own");
}

TEST_F(ExpertActivityTest, TheNumberOfExpertsOfTheGateReluVaries) {
  const auto dense = Model();
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity split,
                       Measure(*dense, Split(4, v1::ExpertSplit::CONTIGUOUS, 2)));
  EXPECT_FALSE(split.varying_experts());
  v1::ModelConfig config = dense->config();
  config.mutable_routing()->Clear();
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->set_num_experts(4);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RELU);
  const auto routed = LanguageModel::Create(ResolveModelConfig(config).value(), 0).value();
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity varying, Measure(*routed, {}));
  EXPECT_TRUE(varying.varying_experts());
}

TEST_F(ExpertActivityTest, PromptsOfTasksAreDomains) {
  const auto model = Model();
  ASSERT_OK_AND_ASSIGN(ExpertActivityOptions options,
                       ExpertsToMeasure(*model, Split(4, v1::ExpertSplit::CONTIGUOUS, 1), {}));
  options.max_windows_per_domain = 1;
  const auto windows = IndexedDataset::Open(Dataset() / "heldout" / "odd").value();
  std::vector<int32_t> prompt = windows.Read(0);
  prompt.pop_back();
  options.tasks = {{.task = "copy", .prompts = {prompt}}};
  ASSERT_OK_AND_ASSIGN(const v1::ExpertActivity activity,
                       MeasureExpertActivity(*model, Dataset(), options, kIgnoreProgress));
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    ASSERT_EQ(layer.domains_size(), 3);
    EXPECT_EQ(layer.domains(2).domain(), "copy");
    EXPECT_EQ(layer.domains(2).num_decisions(), std::ssize(prompt));
    for (int e = 0; e < 4; ++e) {
      EXPECT_NEAR(layer.domains(2).weights(e), layer.domains(1).weights(e), .05);
    }
  }
}

// Returns the share of the held-out tokens of which two dense models choose different experts, one
// each.
double ChangedShare(LanguageModel& before, LanguageModel& after, const fs::path& dataset,
                    const ExpertActivityOptions& options, int layer) {
  const std::vector<int32_t>& expert_of = options.expert_of.at(layer);
  const auto choices = [&](LanguageModel& of, std::span<const int32_t> ids) {
    std::vector<int64_t> best;
    EXPECT_OK(VisitUnits(of, ids, 1, std::vector<int>{layer}, [&](const auto& seen) {
      for (size_t t = 0; t < ids.size(); ++t) {
        std::vector<double> keys(options.num_experts);
        for (int u = 0; u < kUnits; ++u) keys[expert_of[u]] += seen.gate[t * kUnits + u];
        best.push_back(std::ranges::max_element(keys) - keys.begin());
      }
    }));
    return best;
  };
  double tokens = 0, changed = 0;
  for (const std::string domain : {"even", "odd"}) {
    const auto windows = IndexedDataset::Open(dataset / "heldout" / domain).value();
    for (int64_t w = 0; w < windows.num_sequences(); ++w) {
      std::vector<int32_t> ids = windows.Read(w);
      ids.pop_back();
      const auto older = choices(before, ids), newer = choices(after, ids);
      for (size_t t = 0; t < ids.size(); ++t, ++tokens) changed += older[t] != newer[t];
    }
  }
  return changed / tokens;
}

void Damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end).put('x');
}

// The choices of two checkpoints, token by token.
TEST_F(ExpertActivityTest, DriftComparesTheCheckpointsOfARun) {
  const RunDirectory run(NewDirectory("drift"));
  v1::RunSpec spec = TinyDenseSpec(Dataset(), 40);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_keep_last(3);
  ASSERT_OK(run.WriteSpec(spec));
  ASSERT_OK(TrainAlone(run, spec));
  const ModelPath newest = FindModel(run.root(), true).value();
  const auto model = LoadModel(newest.checkpoint).value();
  const auto older = LoadModel(CheckpointPath(run.checkpoints(), 20)).value();
  ASSERT_OK_AND_ASSIGN(const ExpertActivityOptions options,
                       ExpertsToMeasure(*model, Split(4, v1::ExpertSplit::KEYS, 1), {}));
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto drift, MeasureChoiceDrift(run.root(), newest, *model, Dataset(),
                                                            options, &skipped));
  EXPECT_TRUE(skipped.empty());
  ASSERT_EQ(drift.size(), 2u);
  for (int layer = 0; layer < 2; ++layer) {
    const double changed = ChangedShare(*older, *model, Dataset(), options, layer);
    EXPECT_EQ(drift[layer].layer(), layer);
    EXPECT_EQ(drift[layer].from_step(), 20);
    EXPECT_EQ(drift[layer].to_step(), 40);
    EXPECT_NEAR(drift[layer].changed_share(), changed, .01);
    EXPECT_GT(changed, 0);
  }
  // Damaged checkpoints are left out, and reported.
  Damage(CheckpointPath(run.checkpoints(), 20) / "model.safetensors");
  ASSERT_OK_AND_ASSIGN(const auto rest, MeasureChoiceDrift(run.root(), newest, *model, Dataset(),
                                                           options, &skipped));
  EXPECT_TRUE(rest.empty());
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], testing::AllOf(HasSubstr("choices of step 20 were not compared"),
                                         HasSubstr("model.safetensors")));
}

// The start of a run that trains adapters, which has no checkpoint of its own at step 0.
TEST_F(ExpertActivityTest, DriftComparesTheStartOfARunWithItsNewestCheckpoint) {
  const fs::path answers = NewDirectory("answers");
  WriteTinySupervised(answers, TinyExamples(36), 3);
  v1::RunSpec spec = TinyAdapterSpec(answers, Base(), 20);
  const RunDirectory run(NewDirectory("tuned"));
  ASSERT_OK(TrainAlone(run, spec));
  const fs::path start = NewDirectory("start") / "copy";
  fs::copy(spec.init_from(), start, fs::copy_options::recursive);
  spec.set_init_from(start.string());
  ASSERT_OK(run.WriteSpec(spec));
  const ModelPath newest = FindModel(run.root(), true).value();
  const auto model = LoadModel(newest.checkpoint).value(), first = LoadModel(start).value();
  ASSERT_OK_AND_ASSIGN(const ExpertActivityOptions options,
                       ExpertsToMeasure(*model, Split(4, v1::ExpertSplit::KEYS, 1), {}));
  std::vector<std::string> skipped;
  const auto from_start = [&] {
    auto drift =
        MeasureChoiceDrift(run.root(), newest, *model, Dataset(), options, &skipped).value();
    std::erase_if(drift, [](const v1::ChoiceDrift& one) { return one.from_step() > 0; });
    return drift;
  };
  const auto drift = from_start();
  EXPECT_TRUE(skipped.empty());
  ASSERT_EQ(drift.size(), 2u);
  for (int layer = 0; layer < 2; ++layer) {
    const double changed = ChangedShare(*first, *model, Dataset(), options, layer);
    EXPECT_EQ(drift[layer].layer(), layer);
    EXPECT_EQ(drift[layer].to_step(), 20);
    EXPECT_NEAR(drift[layer].changed_share(), changed, .01);
    EXPECT_GT(changed, 0);
  }
  Damage(start / "model.safetensors");
  EXPECT_TRUE(from_start().empty());
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], HasSubstr("choices of the start were not compared"));
  fs::remove_all(start);
  EXPECT_TRUE(from_start().empty());
  EXPECT_EQ(skipped.size(), 1u) << "a start that was deleted is not damaged";
}

TEST_F(ExpertActivityTest, RequestsThatMakeNoSenseAreRefused) {
  const auto dense = Model();
  const auto refused = [&](const v1::ExpertSplit& split, const std::vector<int>& layers = {}) {
    return std::string(ExpertsToMeasure(*dense, split, layers).status().message());
  };
  EXPECT_THAT(refused(Split(4, v1::ExpertSplit::COPIES, 2)), HasSubstr("COPIES, expected KEYS"));
  EXPECT_THAT(refused(Split(5, v1::ExpertSplit::KEYS, 2)), HasSubstr("the nearest are 4 and 8"));
  EXPECT_THAT(refused({}, {2}), HasSubstr("layers: got 2, expected -2 to 1"));
  EXPECT_EQ(refused({}, {-1}), "");
  EXPECT_EQ(ExpertsToMeasure(*dense, {}, {-1})->expert_of.count(1), 1u);
  EXPECT_EQ(ExpertsToMeasure(*dense, {}, {-1})->num_experts, 16);
  v1::ExpertSplit gate = Split(4, v1::ExpertSplit::KEYS, 2);
  gate.set_gate(v1::TokenRouting::LINEAR);
  EXPECT_THAT(refused(gate), HasSubstr("LINEAR, expected KEY_MEAN"));
  v1::AnalyzeExpertsRequest request;
  request.set_model(Base().root().string());
  request.set_num_threads(1);
  request.add_layers(1);
  std::vector<v1::AnalyzeExpertsEvent> events;
  ASSERT_OK(AnalyzeExperts(request, [&](const auto& event) { events.push_back(event); }));
  EXPECT_EQ(events.back().result().layers_size(), 1);
  EXPECT_EQ(events.back().result().step(), 60);
  EXPECT_EQ(events.back().done(), events.back().total());
  EXPECT_EQ(events.back().result().drift_size(), 0) << "the run has one checkpoint";
}

}  // namespace expert_activity_test
}  // namespace braid
