// Runs on answers, and runs that train a part of a model: losses, checkpoints, resumes, validation.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/indexed_dataset.h"
#include "formats/safetensors.h"
#include "formats/supervised_spans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/decoder.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/gradient_pass.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/threaded_communicator.h"
#include "trainer/training_data.h"
#include "trainer/training_state.h"

namespace braid {
namespace finetuning_runs_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kExamples = 36;

fs::path NewestOf(const RunDirectory& run) {
  std::vector<std::string> skipped;
  return **NewestGoodCheckpoint(run.checkpoints(), &skipped);
}

class FinetuningRunsTest : public testing::Test {
 protected:
  FinetuningRunsTest()
      : text_(NewDirectory("text")),
        packed_(NewDirectory("packed")),
        alone_(NewDirectory("alone")) {
    WriteTinyDataset(text_);
    WriteTinySupervised(packed_, examples_, 3);
    WriteTinySupervised(alone_, examples_, 1);
  }

  const RunDirectory& base() {
    static const RunDirectory base = TinyBase(text_);
    return base;
  }

  // Returns the gradients and the loss of one step on the whole dataset.
  struct StepResult {
    double loss;
    int64_t num_tokens;
    std::vector<float> gradients;
  };
  StepResult StepOn(const fs::path& dataset, int64_t micro_batch_size, LanguageModel& model) {
    v1::RunSpec spec = TinyDenseSpec(dataset, 1);
    spec.mutable_batch()->set_global_batch_size(dataset == packed_ ? kExamples / 3 : kExamples);
    SingleProcess alone;
    const TrainingData data = TrainingData::Open(spec, true).value();
    RankBatch work = data.Load(0, 0, 1).value();
    work.micro_batch_size = micro_batch_size;
    auto reducer = GradientReducer::Create(v1::ZERO_1, spec.reduction(), alone).value();
    const GradientPass pass = ComputeGradients(work, false, model, *reducer, alone).value();
    return {pass.loss, pass.num_tokens, {model.gradients().begin(), model.gradients().end()}};
  }

  // Compares a step with the mean over all answer tokens, by a loop over examples, each of them
  // alone.
  void ExpectMeanOverAnswers(LanguageModel& model) {
    double nats = 0, tokens = 0;
    for (const TinyExample& example : examples_) {
      const std::span<const int32_t> all(example.tokens);
      const auto losses =
          model.Evaluate(all.first(all.size() - 1), all.subspan(1), 1, MergeMode::kSegment, false)
              ->token_loss;
      for (const auto& [begin, end] : example.answers) {
        for (int32_t t = begin; t < end; ++t) {
          nats += losses[t - 1];
          ++tokens;
        }
      }
    }
    const StepResult first = StepOn(packed_, 1, model);
    EXPECT_EQ(first.num_tokens, tokens);
    EXPECT_NEAR(first.loss, nats / tokens, 1e-5);
    double largest = 0;
    for (const float g : first.gradients) largest = std::max<double>(largest, std::abs(g));
    EXPECT_GT(largest, 1e-3);
    for (const auto& [dataset, micro] :
         {std::pair(packed_, 5), {packed_, 12}, {alone_, 1}, {alone_, 7}, {alone_, 36}}) {
      const StepResult other = StepOn(dataset, micro, model);
      EXPECT_EQ(other.num_tokens, tokens);
      EXPECT_NEAR(other.loss, first.loss, 1e-5);
      double worst = 0;
      for (size_t i = 0; i < first.gradients.size(); ++i) {
        worst = std::max<double>(worst, std::abs(first.gradients[i] - other.gradients[i]));
      }
      EXPECT_LT(worst, 1e-5 * std::max(1.0, largest)) << dataset << " " << micro;
    }
  }

  RunDirectory Trained(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run;
  }

  const std::vector<TinyExample> examples_ = TinyExamples(kExamples);
  const fs::path text_, packed_, alone_;
};

TEST_F(FinetuningRunsTest, LossIsTheMeanOverAnswersHoweverTheyAreBatched) {
  const auto model = LoadModel(NewestOf(base())).value();
  ExpectMeanOverAnswers(*model);
  // Learned positions restart in every example.
  v1::ModelConfig gpt2 = model->config();
  gpt2.set_family(v1::GPT2);
  gpt2.clear_rope_theta();
  ExpectMeanOverAnswers(*LanguageModel::Create(ResolveModelConfig(gpt2).value(), 3).value());
}

TEST_F(FinetuningRunsTest, RanksShareAdaptersAndGiveTheSameCurve) {
  const v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 12);
  const auto expected = *Trained(spec).ReadMetrics(0);
  EXPECT_LT(expected.back().loss(), expected.front().loss());
  for (const int world_size : {2, 3}) {
    v1::RunSpec ranks = spec;
    ranks.set_world_size(world_size);
    ranks.mutable_reduction()->set_bucket_bytes(1024);
    ranks.mutable_batch()->set_micro_batch_size(1);
    const RunDirectory run(NewDirectory("ranks"));
    std::ostringstream out;
    const auto results = RunThreadedRanks(world_size, [&](Communicator& communicator) {
      LoopEnvironment environment;
      environment.communicator = &communicator;
      environment.now = StepClock();
      environment.out = &out;
      TrainingLoop loop(run, ranks, environment);
      const absl::Status status = loop.Run().status();
      const size_t adapters = loop.state().model->trained_values().size();
      EXPECT_LE(loop.state().m.size(), adapters / world_size + kShardAlignment + 1);
      EXPECT_LT(5 * adapters, 2 * loop.state().model->values().size());
      return status;
    });
    for (const absl::Status& status : results) EXPECT_OK(status);
    const auto got = *run.ReadMetrics(0);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss(), expected[i].loss(), 2e-5 * expected[i].loss()) << i;
      EXPECT_NEAR(got[i].validation().loss(), expected[i].validation().loss(), 1e-4) << i;
    }
  }
}

TEST_F(FinetuningRunsTest, FrozenWeightsKeepTheirBytes) {
  const auto before = LoadModel(NewestOf(base())).value();
  SingleProcess alone;
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = StepClock();
  environment.out = &out;
  TrainingLoop loop(RunDirectory(NewDirectory("run")), TinyAdapterSpec(packed_, base(), 100),
                    environment);
  ASSERT_OK(loop.Run());
  LanguageModel& model = *loop.state().model;
  const size_t frozen = model.values().size() - model.trained_values().size();
  ASSERT_EQ(frozen, before->values().size());
  EXPECT_TRUE(std::ranges::equal(model.values().first(frozen), before->values()));
}

TEST_F(FinetuningRunsTest, CheckpointsHoldAdaptersAndMergeOnLoading) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 10);
  const RunDirectory run = Trained(spec);
  const fs::path checkpoint = NewestOf(run);
  const SafetensorsFile file = SafetensorsFile::Open(checkpoint / "model.safetensors").value();
  for (const TensorInfo& tensor : file.tensors()) EXPECT_THAT(tensor.name, HasSubstr(".lora_"));
  EXPECT_EQ(file.tensors().size(), 2u * 2 * 7);
  const CheckpointState record = ReadCheckpointState(checkpoint).value();
  EXPECT_EQ(record.partial.base().checkpoint(), NewestOf(base()).string());
  // The model in training computes what the loaded one does, without adapters.
  const TrainingState state = RestoreState(checkpoint, spec, record.dataset_key, 0).value();
  const auto merged = LoadModel(checkpoint).value();
  EXPECT_FALSE(IsPartial(merged->finetuning()));
  const std::vector<int32_t> tokens(examples_[2].tokens);
  const auto a = state.model->Logits(tokens, 1).value(), b = merged->Logits(tokens, 1).value();
  const auto c = LoadModel(NewestOf(base()))->get()->Logits(tokens, 1).value();
  double difference = 0, moved = 0, range = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max<double>(difference, std::abs(a[i] - b[i]));
    moved = std::max<double>(moved, std::abs(a[i] - c[i]));
    range = std::max<double>(range, std::abs(a[i]));
  }
  EXPECT_LT(difference, 1e-4 * range);
  EXPECT_GT(moved, 0.1);
  // A run may start from a run with adapters.
  v1::RunSpec next = TinyAdapterSpec(packed_, run, 2);
  EXPECT_EQ(next.init_from(), checkpoint.string());
  const auto start = InitialState(next, 0).value();
  const auto continued = start.model->Logits(tokens, 1).value();
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(continued[i], b[i], 1e-4 * range);
}

TEST_F(FinetuningRunsTest, StoppedRunsResumeToTheSameBits) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 11);
  spec.mutable_checkpoint()->set_every_steps(3);
  const RunDirectory whole = Trained(spec);
  for (const bool self_contained : {false, true}) {
    spec.mutable_finetuning()->set_self_contained(self_contained);
    const RunDirectory run(NewDirectory("stopped"));
    ASSERT_OK(run.WriteSpec(spec));
    for (const int64_t stop_after : {2, 3, 4}) {
      EXPECT_EQ(TrainAlone(run, spec, stop_after).value(), TrainingOutcome::kInterrupted);
    }
    ASSERT_OK(TrainAlone(run, spec));
    EXPECT_EQ(LossLines(run), LossLines(whole));
    EXPECT_EQ(NewestWeights(run) == NewestWeights(whole), !self_contained);
    const auto expected = LoadModel(NewestOf(whole)).value();
    EXPECT_TRUE(std::ranges::equal(LoadModel(NewestOf(run)).value()->values(), expected->values()));
  }
}

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

TEST_F(FinetuningRunsTest, LayersThatMixStoreTheirGatesAndResumeToTheSameBits) {
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

TEST_F(FinetuningRunsTest, RanksGiveMixedLayersTheSameCurveAndTheSameChoices) {
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

TEST_F(FinetuningRunsTest, RanksDecideTogetherForTheWholeBatch) {
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

// Returns the sequences [begin, end) of the first global batch as the part of a rank.
RankBatch BatchOf(TrainingData& data, int64_t begin, int64_t end) {
  RankBatch whole = data.Load(0, 0, 1).value(), part = whole;
  part.batch = begin < end ? whole.batch.Slice(begin, end) : Batch();
  part.instances = {whole.instances.begin() + begin, whole.instances.begin() + end};
  part.datasets.clear();
  part.micro_batch_size = whole.batch.batch_size;
  return part;
}

TEST_F(FinetuningRunsTest, ARankWithoutSequencesStandsInWhereTheBatchDecides) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 8);
  spec.clear_validation();
  spec.mutable_model()->mutable_layer_mixing()->set_decision(v1::LayerMixing::BATCH_MEAN);
  spec = WithMixing(spec, v1::LayerMixing::LEARNED);
  const auto gradients_on = [&](const std::vector<int64_t>& cuts) {
    std::vector<float> gradients;
    const int ranks = static_cast<int>(cuts.size()) - 1;
    const auto results = RunThreadedRanks(ranks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      TrainingState state = InitialState(spec, rank).value();
      TrainingData data = TrainingData::Open(spec, /*verify=*/false).value();
      const RankBatch work = BatchOf(data, cuts[rank], cuts[rank + 1]);
      const auto reducer =
          GradientReducer::Create(v1::REPLICATED, spec.reduction(), communicator).value();
      const auto pass = ComputeGradients(work, true, *state.model, *reducer, communicator);
      const auto all = state.model->gradients();
      if (rank == 0) gradients.assign(all.begin(), all.end());
      return pass.status();
    });
    for (const absl::Status& status : results) EXPECT_OK(status);
    return gradients;
  };
  const int64_t all = spec.batch().global_batch_size();
  const auto alone = gradients_on({0, all}), with_idle = gradients_on({0, 0, 3, all});
  ASSERT_EQ(alone.size(), with_idle.size());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    difference = std::max<double>(difference, std::abs(alone[i] - with_idle[i]));
    largest = std::max<double>(largest, std::abs(alone[i]));
  }
  EXPECT_LT(difference, 1e-4 * largest);
}

TEST_F(FinetuningRunsTest, MixedLayersThatCannotBeTrainedAreRefused) {
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

TEST_F(FinetuningRunsTest, AnotherBaseIsRefused) {
  const RunDirectory own = TinyBase(text_);
  v1::RunSpec spec = TinyAdapterSpec(packed_, own, 2);
  v1::RunSpec contained = spec;
  contained.mutable_finetuning()->set_self_contained(true);
  const RunDirectory run = Trained(spec), copy = Trained(contained);
  const auto expected = LoadModel(NewestOf(run)).value();
  const fs::path checkpoint = NewestOf(own), aside = checkpoint.string() + "-aside";
  fs::rename(checkpoint, aside);
  EXPECT_FAILS(LoadModel(NewestOf(run)), absl::StatusCode::kFailedPrecondition,
               "does not exist; restore that directory");
  EXPECT_TRUE(std::ranges::equal(LoadModel(NewestOf(copy)).value()->values(), expected->values()))
      << "self-contained";
  // A checkpoint of the same shape with other weights takes its place.
  v1::RunSpec other = TinyDenseSpec(text_, 6);
  other.set_seed(5);
  fs::rename(NewestOf(Trained(other)), checkpoint);
  EXPECT_FAILS(LoadModel(NewestOf(run)), absl::StatusCode::kFailedPrecondition,
               "tensor model.embed_tokens.weight: got checksum");
  const CheckpointState record = ReadCheckpointState(NewestOf(run)).value();
  EXPECT_FAILS(RestoreState(NewestOf(run), spec, record.dataset_key, 0),
               absl::StatusCode::kFailedPrecondition, "not the base that");
  fs::remove_all(checkpoint);
  fs::rename(aside, checkpoint);
  EXPECT_OK(LoadModel(NewestOf(run)));
  spec.mutable_finetuning()->mutable_lora()->set_alpha(3);
  EXPECT_FAILS(RestoreState(NewestOf(run), spec, record.dataset_key, 0),
               absl::StatusCode::kFailedPrecondition, "was trained with finetuning");
}

TEST_F(FinetuningRunsTest, ListedParametersAreTrainedAlone) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 4);
  spec.clear_finetuning();
  spec.mutable_finetuning()->add_train("model.layers.1.*");
  spec.mutable_finetuning()->add_train("*norm*");
  const RunDirectory run = Trained(ResolveRunSpec(spec).value());
  const auto before = LoadModel(NewestOf(base())).value(), after = LoadModel(NewestOf(run)).value();
  for (size_t i = 0; i < before->parameters().size(); ++i) {
    const Parameter &a = before->parameters()[i], &b = after->parameters()[i];
    const bool trained =
        a.name.starts_with("model.layers.1.") || a.name.find("norm") != a.name.npos;
    EXPECT_EQ(std::ranges::equal(a.value, b.value), !trained) << a.name;
  }
  EXPECT_LT(fs::file_size(NewestOf(run) / "model.safetensors"),
            fs::file_size(NewestOf(base()) / "model.safetensors"));
}

TEST_F(FinetuningRunsTest, ValidationScoresAnswersOfTheHeldOutPart) {
  const RunDirectory run = Trained(TinyAdapterSpec(packed_, base(), 5));
  const v1::ValidationMetrics validation = run.ReadMetrics(0)->back().validation();
  const auto model = LoadModel(NewestOf(run)).value();
  double nats = 0, tokens = 0;
  for (const TinyExample& example : TinyExamples(4, 77)) {
    const std::span<const int32_t> all(example.tokens);
    const auto losses =
        model->Evaluate(all.first(all.size() - 1), all.subspan(1), 1, MergeMode::kSegment, false)
            ->token_loss;
    for (const auto& [begin, end] : example.answers) {
      for (int32_t t = begin; t < end; ++t) nats += losses[t - 1], ++tokens;
    }
  }
  EXPECT_NEAR(validation.loss(), nats / tokens, 1e-4);
  EXPECT_EQ(validation.best_step(), 5);
  EXPECT_NEAR(validation.best_loss(), validation.loss(), 1e-12);
}

TEST_F(FinetuningRunsTest, SpeedCountsAllPositionsAndTokensOnlyTargets) {
  const RunDirectory run = Trained(TinyAdapterSpec(packed_, base(), 1));
  const v1::StepMetrics step = run.ReadMetrics(0)->back();
  EXPECT_NEAR(step.tokens_per_second() * step.step_seconds(), 4 * 32, 1e-6);
  EXPECT_LT(step.num_tokens(), 4 * 32 / 2);
}

// After one step from the same weights, the change of every parameter is its factor times that of a
// run without groups; the first group that matches decides.
TEST_F(FinetuningRunsTest, GroupsHaveLearningRatesOfTheirOwn) {
  for (const auto algorithm : {v1::ADAMW, v1::MUON}) {
    v1::RunSpec spec = TinyDenseSpec(packed_, 1);
    spec.mutable_optimizer()->set_algorithm(algorithm);
    spec = ResolveRunSpec(spec).value();
    const auto start = LanguageModel::Create(spec.model(), spec.seed()).value();
    const auto plain = LoadModel(NewestOf(Trained(spec))).value();
    const auto add = [&](const std::string& pattern, double factor) {
      v1::LearningRateGroup* const group = spec.mutable_finetuning()->add_learning_rates();
      group->set_pattern(pattern);
      group->set_factor(factor);
    };
    double most = 0;
    add("model.layers.1.*norm*", 0);
    add("model.layers.*", 0.5);
    const auto grouped = LoadModel(NewestOf(Trained(ResolveRunSpec(spec).value()))).value();
    for (size_t i = 0; i < start->parameters().size(); ++i) {
      const Parameter& before = start->parameters()[i];
      const bool norm = before.name.find("norm") != before.name.npos;
      const bool last = before.name.starts_with("model.layers.1.");
      const double factor = last && norm ? 0 : before.name.starts_with("model.layers.") ? 0.5 : 1;
      for (size_t j = 0; j < before.value.size(); ++j) {
        const double moved = plain->parameters()[i].value[j] - before.value[j];
        const double got = grouped->parameters()[i].value[j] - before.value[j];
        most = std::max(most, std::abs(moved));
        ASSERT_NEAR(got, factor * moved, 1e-6) << before.name;
        ASSERT_TRUE(factor > 0 || got == 0) << before.name;
      }
    }
    EXPECT_GT(most, 1e-4);
  }
}

v1::RunSpec NoisySpec(const fs::path& dataset, const RunDirectory& base, int64_t num_steps) {
  v1::RunSpec spec = TinyAdapterSpec(dataset, base, num_steps);
  v1::Finetuning* const finetuning = spec.mutable_finetuning();
  finetuning->set_label_smoothing(0.2);
  finetuning->set_embedding_noise(3);
  finetuning->add_learning_rates()->set_pattern("*lora_B*");
  finetuning->mutable_learning_rates(0)->set_factor(4);
  return ResolveRunSpec(spec).value();
}

// The reported loss is unsmoothed.
TEST_F(FinetuningRunsTest, SmoothedAndNoisyRunsAreExact) {
  v1::RunSpec spec = NoisySpec(packed_, base(), 10);
  spec.mutable_checkpoint()->set_every_steps(3);
  const RunDirectory whole = Trained(spec), stopped(NewDirectory("stopped"));
  ASSERT_OK(stopped.WriteSpec(spec));
  EXPECT_EQ(TrainAlone(stopped, spec, 4).value(), TrainingOutcome::kInterrupted);
  ASSERT_OK(TrainAlone(stopped, spec));
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  // Ranks divide the batch without changing the noise of an instance.
  v1::RunSpec ranks = spec;
  ranks.set_world_size(2);
  ranks.mutable_batch()->set_micro_batch_size(1);
  const RunDirectory run(NewDirectory("ranks"));
  EXPECT_OK(TrainOnRanks(run, ranks));
  const auto expected = *whole.ReadMetrics(0), got = *run.ReadMetrics(0);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss(), expected[i].loss(), 1e-4 * expected[i].loss()) << i;
  }
  // Noise and smoothing have an effect, each on its own.
  spec.mutable_finetuning()->set_embedding_noise(0);
  const auto without_noise = *Trained(spec).ReadMetrics(0);
  EXPECT_NE(without_noise[0].loss(), expected[0].loss());
  spec.mutable_finetuning()->set_label_smoothing(0);
  const auto plain = *Trained(spec).ReadMetrics(0);
  EXPECT_EQ(plain[0].loss(), without_noise[0].loss());
  EXPECT_NE(plain[0].gradient_norm(), without_noise[0].gradient_norm());
}

TEST_F(FinetuningRunsTest, ImpossibleRunsAreRefused) {
  const v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 4);
  v1::RunSpec asked = spec;
  asked.clear_init_from();
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "finetuning: got settings without init_from");
  // A router that looks at other tokens takes one example a sequence.
  asked = TinySpec(alone_, 4);
  EXPECT_OK(ResolveRunSpec(asked));
  asked.set_dataset_dir(packed_.string());
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "one example a sequence for the router CAUSAL_SEGMENT");
  asked = spec;
  asked.clear_dataset_dir();
  for (const fs::path& dataset : {packed_, text_}) {
    v1::MixtureDataset* const entry = asked.add_datasets();
    entry->set_dataset(dataset.string());
    entry->set_share(0.5);
  }
  EXPECT_FAILS(ResolveRunSpec(asked), absl::StatusCode::kInvalidArgument,
               "expected a supervised dataset as ");
  // An instance whose answers are missing.
  const fs::path broken = NewDirectory("broken");
  WriteTinySupervised(broken, examples_, 3);
  const IndexedDataset instances = IndexedDataset::Open(broken / "instances").value();
  std::vector<SupervisedSpan> spans = ReadSpans(broken / kSpansName, instances).value();
  std::erase_if(spans, [](const SupervisedSpan& span) { return span.instance == 4; });
  ASSERT_OK(WriteSpans(broken / kSpansName, spans, instances));
  SealDataset(broken);
  EXPECT_FAILS(TrainingData::Open(TinyDenseSpec(broken, 2), true), absl::StatusCode::kDataLoss,
               "instance 4 has no answer");
}

// The test that tools fail which take EOS for padding: each answer must end.
TEST_F(FinetuningRunsTest, MemorizedAnswersAreGeneratedAndEnd) {
  std::vector<TinyExample> examples;
  std::set<std::vector<int32_t>> prompts;
  for (const TinyExample& example : TinyExamples(200, 3)) {
    if (example.answers.size() > 1 || examples.size() == 32) continue;
    const auto begin = example.tokens.begin();
    if (prompts.insert({begin, begin + example.answers[0].first}).second) {
      examples.push_back(example);
    }
  }
  const fs::path dataset = NewDirectory("memory");
  WriteTinySupervised(dataset, examples, 3);
  v1::RunSpec spec = TinyDenseSpec(dataset, 400);
  spec.mutable_model()->set_d_model(32);
  spec.mutable_model()->set_d_ff(64);
  spec.mutable_optimizer()->set_learning_rate(1e-2);
  const auto model = LoadModel(NewestOf(Trained(ResolveRunSpec(spec).value()))).value();
  for (const TinyExample& example : examples) {
    const auto [begin, end] = example.answers[0];
    auto decoder = model->NewDecoder(MergeMode::kSegment);
    std::vector<int32_t> answer;
    std::vector<float> logits = decoder->Prefill(std::span(example.tokens).first(begin)).value();
    while (answer.size() < 8) {
      answer.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
      if (answer.back() == 2) break;
      logits = decoder->Step(answer.back()).value();
    }
    EXPECT_EQ(answer,
              std::vector<int32_t>(example.tokens.begin() + begin, example.tokens.begin() + end));
  }
}

}  // namespace finetuning_runs_test
}  // namespace braid
