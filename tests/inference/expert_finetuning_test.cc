// Tuning of a dense model as experts that are slices of its FFNs (EMoE), and the dense model that
// comes out of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/huggingface/model_export.h"
#include "inference/kept_experts.h"
#include "inference/model_conversion.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/unit_activations.h"
#include "runs/checkpoint_directory.h"
#include "runs/conversion_record.h"
#include "runs/run_spec.h"
#include "tests/base/largest_difference.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace expert_finetuning_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kExperts = 4;

class ExpertFinetuningTest : public testing::TestWithParam<v1::Family> {
 protected:
  ExpertFinetuningTest() : text_(NewDirectory("text")), answers_(NewDirectory("answers")) {
    WriteTinyDataset(text_);
    WriteTinySupervised(answers_, TinyExamples(36), 3);
  }

  // A dense run of the family.
  const RunDirectory& base() {
    static std::map<v1::Family, RunDirectory> bases;
    auto found = bases.find(GetParam());
    if (found == bases.end()) {
      v1::RunSpec spec = TinyDenseSpec(text_, 6);
      spec.mutable_model()->set_family(GetParam());
      spec.mutable_model()->clear_rope_theta();
      found = bases.emplace(GetParam(), Trained(spec)).first;
    }
    return found->second;
  }

  fs::path Converted(v1::ExpertSplit::Method method, int active) {
    v1::ConvertRequest request;
    request.set_model(base().root().string());
    request.set_output_dir((NewDirectory("converted") / "experts").string());
    request.mutable_split()->set_num_experts(kExperts);
    request.mutable_split()->set_method(method);
    request.mutable_split()->set_active_experts(active);
    request.mutable_split()->set_seed(3);
    EXPECT_OK(Convert(request).status());
    return request.output_dir();
  }

  static v1::RunSpec Asked(const fs::path& dataset, const fs::path& start, bool adapters) {
    v1::RunSpec spec;
    spec.set_dataset_dir(dataset.string());
    spec.set_init_from(start.string());
    spec.set_num_steps(10);
    spec.set_threads_per_rank(1);
    spec.mutable_optimizer()->set_learning_rate(1e-2);
    spec.mutable_checkpoint()->set_every_steps(5);
    if (adapters) spec.mutable_finetuning()->mutable_lora()->set_rank(2);
    return spec;
  }

  static RunDirectory Trained(const v1::RunSpec& asked) {
    const RunDirectory run(NewDirectory("run"));
    const v1::RunSpec spec = ResolveRunSpec(asked).value();
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec).status());
    return run;
  }

  RunDirectory TrainedRouted(v1::ExpertSplit::Method method, int active, bool adapters) {
    v1::RunSpec spec = Asked(answers_, Converted(method, active), adapters);
    spec.mutable_finetuning()->set_recompose(true);
    return Trained(spec);
  }

  const fs::path text_, answers_;
};

std::vector<float> LogitsOf(LanguageModel& model) {
  std::vector<int32_t> tokens(2 * 32);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 64);
  return model.Logits(tokens, 2).value();
}

bool IsFfn(const Parameter& parameter) { return parameter.name.find(".mlp.") != std::string::npos; }

TEST_P(ExpertFinetuningTest, WithAllExpertsTuningGivesTheCurveOfPlainTuning) {
  for (const bool adapters : {true, false}) {
    const auto plain = *Trained(Asked(answers_, base().root(), adapters)).ReadMetrics(0);
    const auto routed = *TrainedRouted(v1::ExpertSplit::KEYS, kExperts, adapters).ReadMetrics(0);
    const auto half = *TrainedRouted(v1::ExpertSplit::KEYS, 2, adapters).ReadMetrics(0);
    ASSERT_EQ(plain.size(), 10u);
    ASSERT_EQ(routed.size(), plain.size());
    double moved = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_NEAR(routed[i].loss(), plain[i].loss(), 1e-5 * plain[i].loss()) << i;
      moved = std::max(moved, std::abs(half[i].loss() - plain[i].loss()));
    }
    EXPECT_GT(moved, 1e-4) << "routing acts";
  }
}

TEST_P(ExpertFinetuningTest, TheRecomposedModelComputesWhatAllExpertsDo) {
  for (const bool adapters : {true, false}) {
    const RunDirectory run = TrainedRouted(v1::ExpertSplit::KEYS, 2, adapters);
    ModelPath path = FindModel(run.root(), true).value();
    ASSERT_OK_AND_ASSIGN(const bool recomposed, IsRecomposed(path));
    EXPECT_TRUE(recomposed);
    double seconds = 0;
    ASSERT_OK_AND_ASSIGN(const auto dense, LoadRecomposed(&path, /*strict=*/true, &seconds));
    EXPECT_GT(seconds, 0);
    EXPECT_FALSE(UsesExperts(dense->config()));
    ASSERT_OK_AND_ASSIGN(const auto routed, LoadModel(path.checkpoint));
    EXPECT_GT(LargestDifference(LogitsOf(*dense), LogitsOf(*routed)), 1e-4);
    ASSERT_OK(routed->SetActiveExperts(kExperts));
    EXPECT_LT(LargestDifference(LogitsOf(*dense), LogitsOf(*routed)), 1e-5);
    const auto start = LoadModel(FindModel(base().root(), true)->checkpoint).value();
    EXPECT_GT(LargestDifference(LogitsOf(*dense), LogitsOf(*start)), 1e-3) << "it was tuned";
  }
}

TEST_P(ExpertFinetuningTest, AdaptersLeaveTheFfnsOfTheBaseByteForByte) {
  const auto start = LoadModel(FindModel(base().root(), true)->checkpoint).value();
  for (const auto method : {v1::ExpertSplit::KEYS, v1::ExpertSplit::RANDOM}) {
    const RunDirectory run = TrainedRouted(method, 2, /*adapters=*/true);
    // A run that continues the run finds the order of the units, too.
    v1::RunSpec next = Asked(answers_, run.root(), /*adapters=*/true);
    next.mutable_finetuning()->set_recompose(true);
    for (const RunDirectory& tuned : {run, Trained(next)}) {
      ModelPath path = FindModel(tuned.root(), true).value();
      const auto dense = LoadRecomposed(&path, /*strict=*/true).value();
      int compared = 0;
      for (size_t i = 0; i < dense->parameters().size(); ++i) {
        const Parameter &a = start->parameters()[i], &b = dense->parameters()[i];
        ASSERT_EQ(a.name, b.name);
        if (!IsFfn(a)) continue;
        EXPECT_EQ(std::memcmp(a.value.data(), b.value.data(), a.value.size_bytes()), 0) << a.name;
        ++compared;
      }
      EXPECT_EQ(compared, GetParam() == v1::GPT2 ? 2 * 4 : 2 * 3);
    }
  }
}

// Each expert has its own adapters. The checkpoint holds them alone, and what they are added to
// stays byte for byte.
TEST_P(ExpertFinetuningTest, AdaptersOfExpertsResumeAndMergeAndLeaveTheExperts) {
  v1::RunSpec spec = Asked(answers_, Converted(v1::ExpertSplit::KEYS, 2), /*adapters=*/true);
  v1::LoraConfig* const lora = spec.mutable_finetuning()->mutable_lora();
  for (const char* target : {"q", "up", "down"}) lora->add_targets(target);
  if (GetParam() == v1::LLAMA) lora->add_targets("gate");
  spec = ResolveRunSpec(spec).value();
  const RunDirectory whole = Trained(spec), run(NewDirectory("stopped"));
  ASSERT_OK(run.WriteSpec(spec));
  EXPECT_EQ(TrainAlone(run, spec, 7).value(), TrainingOutcome::kInterrupted);
  ASSERT_OK(TrainAlone(run, spec));
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
  const fs::path checkpoint = FindModel(run.root(), true)->checkpoint;
  const auto file = SafetensorsFile::Open(checkpoint / "model.safetensors").value();
  for (const TensorInfo& tensor : file.tensors()) {
    EXPECT_NE(tensor.name.find(".lora_"), std::string::npos) << tensor.name;
  }
  const auto start = LoadModel(spec.init_from()).value();
  const CheckpointState record = ReadCheckpointState(checkpoint).value();
  const TrainingState state = RestoreState(checkpoint, spec, record.dataset_key, 0).value();
  size_t experts = 0;
  for (size_t i = 0; i < start->parameters().size(); ++i) {
    const Parameter &a = start->parameters()[i], &b = state.model->parameters()[i];
    ASSERT_EQ(a.name, b.name);
    EXPECT_EQ(std::memcmp(a.value.data(), b.value.data(), a.value.size_bytes()), 0) << a.name;
  }
  for (const Parameter& p : state.model->parameters()) {
    if (p.name.find(".experts.") == std::string::npos || p.name.find("lora_B") == p.name.npos) {
      continue;
    }
    EXPECT_EQ(p.shape.front(), kExperts) << p.name;
    EXPECT_NE(std::ranges::count_if(p.value, [](float value) { return value != 0; }), 0) << p.name;
    ++experts;
  }
  EXPECT_EQ(experts, GetParam() == v1::LLAMA ? 2u * 3 : 2u * 2);
  const auto merged = LoadModel(checkpoint).value();
  EXPECT_LT(LargestDifference(LogitsOf(*state.model), LogitsOf(*merged)), 1e-4);
  EXPECT_GT(LargestDifference(LogitsOf(*start), LogitsOf(*merged)), 1e-3);
  v1::ExportRequest request;
  request.set_model(run.root().string());
  request.set_adapter(true);
  request.set_output_dir((NewDirectory("adapter") / "out").string());
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "has adapters of experts",
               "export the model without --adapter");
}

// The experts that the examples use on their own: packed examples do not see each other.
TEST_P(ExpertFinetuningTest, ExpertsThatExamplesUseAreCounted) {
  const fs::path start = Converted(v1::ExpertSplit::KEYS, 2), packed = NewDirectory("packed");
  const std::vector<TinyExample> examples = TinyExamples(12);
  WriteTinySupervised(packed, examples, 3);
  const auto model = LoadModel(start).value();
  ExpertUse expected = {{0, std::vector<double>(kExperts)}, {1, std::vector<double>(kExperts)}};
  for (size_t i = 0; i < examples.size(); ++i) {
    std::vector<int32_t> tokens = examples[i].tokens;
    if (i % 3 == 2) tokens.pop_back();  // the last token of a sequence is only a target
    const std::vector<int32_t> targets(tokens.size(), 0);
    ASSERT_OK_AND_ASSIGN(const auto result,
                         model->Evaluate(tokens, targets, 1, MergeMode::kSegment, true));
    for (const LayerRoutingWeights& layer : result.routing) {
      for (const int32_t expert : layer.chosen) ++expected[layer.layer][expert];
    }
  }
  ASSERT_OK_AND_ASSIGN(const ExpertUse use, CountExpertUse(*model, start, packed, 256));
  for (const auto& [layer, counts] : expected) {
    for (int e = 0; e < kExperts; ++e) {
      EXPECT_NEAR(use.at(layer)[e], counts[e], 1) << "up to ties within rounding";
    }
  }
  v1::ConvertRequest keep;
  keep.set_model(start.string());
  keep.set_output_dir((NewDirectory("kept") / "experts").string());
  keep.mutable_keep()->set_num_experts(2);
  keep.mutable_keep()->set_dataset_dir(packed.string());
  ASSERT_OK_AND_ASSIGN(const auto kept, Convert(keep));
  EXPECT_EQ(kept.model().routing().num_experts(), 2);
}

// Returns the experts with the highest means of products with keys, which are those of the weights.
std::vector<int32_t> HighestKeys(std::span<const float> gate) {
  const size_t width = gate.size() / kExperts;
  std::vector<double> keys(kExperts);
  for (size_t u = 0; u < gate.size(); ++u) keys[u / width] += gate[u];
  std::vector<int32_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t e) { return keys[e]; });
  order.resize(2);
  std::ranges::sort(order);
  return order;
}

TEST_P(ExpertFinetuningTest, TheGateFollowsTrainedKeys) {
  const fs::path start = Converted(v1::ExpertSplit::KEYS, 2);
  v1::RunSpec spec = Asked(answers_, start, /*adapters=*/false);
  spec.mutable_checkpoint()->set_every_steps(1);
  spec.mutable_checkpoint()->set_keep_last(10);
  spec.set_num_steps(6);
  const RunDirectory run = Trained(spec);
  std::vector<int32_t> tokens(32);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 64);
  std::map<int, std::vector<int32_t>> first;
  int agree = 0, seen = 0, moved = 0;
  std::vector<fs::path> checkpoints = {start};
  for (int64_t step = 1; step <= 6; ++step) {
    checkpoints.push_back(CheckpointPath(run.checkpoints(), step));
  }
  for (const fs::path& checkpoint : checkpoints) {
    const auto model = LoadModel(checkpoint).value();
    for (const Parameter& parameter : model->parameters()) {
      EXPECT_THAT(parameter.name, testing::Not(HasSubstr("router"))) << "the gate has no weights";
    }
    ASSERT_OK(VisitUnits(*model, tokens, 1, std::vector<int>{0, 1}, [&](const auto& layer) {
      const size_t units = layer.keys.size() / tokens.size();
      const std::vector<int32_t> all(layer.chosen.begin(), layer.chosen.end());
      for (size_t t = 0; t < tokens.size(); ++t) {
        const std::vector<int32_t> chosen(all.begin() + 2 * t, all.begin() + 2 * t + 2);
        agree += chosen == HighestKeys(layer.keys.subspan(t * units, units));
        ++seen;
      }
      const auto [at_start, added] = first.insert({layer.layer, all});
      moved += at_start->second != all;
    }));
  }
  EXPECT_EQ(seen, 7 * 2 * 32);
  EXPECT_GE(agree, seen - 2) << "up to ties within rounding";
  EXPECT_GT(moved, 0) << "training changes the choice";
}

// Noise leaves units where they are. Experts that were kept have no place in the dense model.
TEST_P(ExpertFinetuningTest, UnitsReturnToTheirPlacesAfterNoise) {
  const fs::path noisy = NewDirectory("noisy") / "experts";
  v1::ConvertRequest noise;
  noise.set_model(Converted(v1::ExpertSplit::RANDOM, 2).string());
  noise.set_output_dir(noisy.string());
  noise.set_force(true);
  noise.mutable_noise()->set_share(1e-6);
  ASSERT_OK(Convert(noise).status());
  const auto joined = [](const fs::path& experts) {
    v1::ConvertRequest join;
    join.set_model(experts.string());
    join.set_output_dir((NewDirectory("joined") / "dense").string());
    join.set_dense(true);
    return Convert(join).value();
  };
  const v1::ConvertResponse restored = joined(noisy);
  EXPECT_TRUE(restored.restored_order());
  const auto dense = LoadModel(restored.output_dir()).value();
  const auto start = LoadModel(FindModel(base().root(), true)->checkpoint).value();
  const auto values = [](const auto& model) {
    return std::vector<float>(model->values().begin(), model->values().end());
  };
  EXPECT_LT(LargestDifference(values(dense), values(start)), 1e-4);
  // A model that is converted in its place loses the record of its split.
  noise.set_model(noisy.string());
  ASSERT_OK(Convert(noise).status());
  EXPECT_FALSE(joined(noisy).restored_order());

  const fs::path kept = Converted(v1::ExpertSplit::RANDOM, 2);
  v1::Conversion record;
  record.mutable_request()->mutable_keep()->set_num_experts(kExperts);
  ASSERT_OK(WriteConversion(record, kept));
  EXPECT_FALSE(joined(kept).restored_order());
}

// What is left computes what the tuned experts did, and can be tuned in turn.
TEST_P(ExpertFinetuningTest, TunedModelsKeepTheExpertsThatATextUsesMost) {
  constexpr int kKept = 2;
  const RunDirectory run = TrainedRouted(v1::ExpertSplit::KEYS, kKept, /*adapters=*/true);
  v1::ConvertRequest request;
  request.set_model(run.root().string());
  request.set_output_dir((NewDirectory("kept") / "experts").string());
  request.mutable_keep()->set_num_experts(kKept);
  request.mutable_keep()->set_dataset_dir(text_.string());
  ASSERT_OK(Convert(request).status());
  const fs::path checkpoint = FindModel(run.root(), true)->checkpoint;
  const auto tuned = LoadModel(checkpoint).value();
  ASSERT_OK_AND_ASSIGN(const ExpertUse use, CountExpertUse(*tuned, checkpoint, text_, 256));
  ASSERT_OK_AND_ASSIGN(const auto record, ReadConversion(request.output_dir()));
  ASSERT_TRUE(record.has_value());
  ASSERT_EQ(record->layers_size(), 2);
  // All experts together, those that were dropped with outputs of zero.
  ASSERT_OK(tuned->SetActiveExperts(kExperts));
  for (const v1::LayerUnits& layer : record->layers()) {
    ASSERT_EQ(layer.experts_size(), kKept);
    const std::vector<double>& counts = use.at(layer.layer());
    double fewest = counts[layer.experts(0)], most = 0;
    for (int expert = 0; expert < kExperts; ++expert) {
      if (std::ranges::count(layer.experts(), expert) > 0) {
        fewest = std::min(fewest, counts[expert]);
        continue;
      }
      most = std::max(most, counts[expert]);
      const std::string down = LayerPrefix(layer.layer()) + "mlp.experts.down_proj.weight_t";
      const auto matrix = std::ranges::find(tuned->parameters(), down, &Parameter::name);
      ASSERT_TRUE(matrix != tuned->parameters().end()) << down;
      const size_t size = matrix->value.size() / kExperts;
      std::ranges::fill(matrix->value.subspan(expert * size, size), 0.0f);
    }
    EXPECT_GE(fewest, most) << layer.layer();
  }
  const auto kept = LoadModel(request.output_dir()).value();
  EXPECT_EQ(kept->config().routing().num_experts(), kKept);
  EXPECT_LT(LargestDifference(LogitsOf(*kept), LogitsOf(*tuned)), 1e-5);
  const RunDirectory again = Trained(Asked(answers_, request.output_dir(), /*adapters=*/true));
  const auto further = LoadModel(FindModel(again.root(), true)->checkpoint).value();
  EXPECT_EQ(further->config().routing().num_experts(), kKept);
  EXPECT_GT(LargestDifference(LogitsOf(*further), LogitsOf(*kept)), 1e-3) << "it was tuned";
}

TEST_P(ExpertFinetuningTest, RunsThatCannotBeRecomposedAreRefused) {
  const auto refused = [&](const fs::path& start, const auto& change) {
    v1::RunSpec spec = Asked(answers_, start, /*adapters=*/true);
    spec.mutable_finetuning()->set_recompose(true);
    change(&spec);
    return std::string(ResolveRunSpec(spec).status().message());
  };
  const auto nothing = [](v1::RunSpec*) {};
  EXPECT_THAT(refused(base().root(), nothing), HasSubstr("finetuning.recompose"));
  EXPECT_THAT(refused(Converted(v1::ExpertSplit::COPIES, 2), nothing),
              testing::AllOf(HasSubstr("finetuning.recompose"), HasSubstr("not slices of 32 units"),
                             HasSubstr("--no-recompose")));
  const fs::path start = Converted(v1::ExpertSplit::KEYS, 2);
  EXPECT_EQ(refused(start, nothing), "");
  const auto equal_weights = [](v1::RunSpec* spec) {
    auto* const token = spec->mutable_model()->mutable_routing()->mutable_token();
    token->set_combine_weights(v1::TokenRouting::EQUAL);
  };
  EXPECT_THAT(refused(start, equal_weights), HasSubstr("EQUAL, expected ONES"));
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertFinetuningTest, testing::Values(v1::LLAMA, v1::GPT2),
                         [](const auto& test) { return v1::Family_Name(test.param); });

}  // namespace expert_finetuning_test
}  // namespace braid
