// Runs that train a linear head on the last token of prompts: losses, adapters, ranks, resumes.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "formats/packed_dataset.h"
#include "formats/safetensors.h"
#include "formats/supervised_spans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/decoder.h"
#include "model/config/head_config.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/finetuning_fixture.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/gradient_pass.h"
#include "trainer/training_data.h"
#include "trainer/training_state.h"
#include "trainer/validation.h"

namespace braid {
namespace label_head_test {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::HasSubstr;

constexpr int64_t kExamples = 36;

class LabelHeadTest : public testing::TestWithParam<bool> {
 protected:
  LabelHeadTest()
      : text_(NewDirectory("text")),
        packed_(NewDirectory("packed")),
        alone_(NewDirectory("alone")) {
    WriteTinyDataset(text_);
    WriteTinySupervised(packed_, examples_, 3, Labels());
    WriteTinySupervised(alone_, examples_, 1, Labels());
  }

  bool regression() const { return GetParam(); }
  TinyLabels Labels() const {
    if (regression()) return {.classes = {}, .regression = true};
    return {.classes = {"north", "south", "west"}, .regression = false};
  }

  const RunDirectory& base() {
    static const RunDirectory base = TinyBase(text_);
    return base;
  }

  // Trains all weights, or adapters.
  v1::RunSpec Spec(bool adapters, int64_t steps) {
    v1::RunSpec spec = TinyAdapterSpec(packed_, base(), steps);
    if (!adapters) spec.clear_finetuning();
    spec.mutable_optimizer()->set_learning_rate(0.02);
    return spec;
  }

  RunDirectory Trained(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run;
  }

  // Returns the loss of an example from the logits after its prompt, in double precision.
  double LossOf(LanguageModel& model, const TinyExample& example) const {
    const std::vector<int32_t> prompt(example.tokens.begin(), example.tokens.end() - 1);
    const std::vector<float> all = model.Logits(prompt, 1).value();
    const size_t width = regression() ? 1 : 3;
    EXPECT_EQ(all.size(), prompt.size() * width);
    const std::span<const float> logits = std::span(all).last(width);
    if (regression()) return std::pow(double{logits[0]} - double{example.label}, 2);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    return std::log(sum) - logits[static_cast<size_t>(example.label)];
  }

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

  const std::vector<TinyExample> examples_ = TinyLabeledExamples(kExamples, GetParam());
  const fs::path text_, packed_, alone_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LabelHeadTest, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Regression" : "Classes";
});

TEST_P(LabelHeadTest, TheLossIsTheMeanOverExamplesHoweverTheyAreBatched) {
  const auto model = LoadModel(NewestOf(Trained(Spec(false, 3)))).value();
  double expected = 0;
  for (const TinyExample& example : examples_) expected += LossOf(*model, example) / kExamples;
  const StepResult first = StepOn(packed_, 1, *model);
  EXPECT_EQ(first.num_tokens, kExamples);
  EXPECT_NEAR(first.loss, expected, 1e-5 * std::max(1.0, expected));
  double largest = 0;
  for (const float g : first.gradients) largest = std::max<double>(largest, std::abs(g));
  EXPECT_GT(largest, 1e-3);
  for (const auto& [dataset, micro] : {std::pair(packed_, 5), {alone_, 7}, {alone_, 36}}) {
    const StepResult other = StepOn(dataset, micro, *model);
    EXPECT_NEAR(other.loss, first.loss, 1e-5 * std::max(1.0, expected));
    for (size_t i = 0; i < first.gradients.size(); ++i) {
      ASSERT_NEAR(first.gradients[i], other.gradients[i], 1e-5 * std::max(1.0, largest)) << i;
    }
  }
}

TEST_P(LabelHeadTest, TheGradientOfTheHeadIsThatOfTheLoss) {
  const auto model = LoadModel(NewestOf(Trained(Spec(false, 3)))).value();
  StepOn(packed_, 4, *model);
  const auto head = std::ranges::find(model->parameters(), kLabelHead, &Parameter::name);
  ASSERT_NE(head, model->parameters().end());
  EXPECT_EQ(head->shape, std::vector<int64_t>({regression() ? 1 : 3, 16}));
  const auto mean = [&] {
    double sum = 0;
    for (const TinyExample& example : examples_) sum += LossOf(*model, example) / kExamples;
    return sum;
  };
  const std::vector<float> gradient(head->gradient.begin(), head->gradient.end());
  for (const size_t i : {size_t{0}, size_t{7}, gradient.size() - 1}) {
    const float before = head->value[i];
    head->value[i] = before + 0.05f;
    const double above = mean();
    head->value[i] = before - 0.05f;
    const double below = mean();
    head->value[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / 0.1, 1e-3) << i;
  }
}

TEST_P(LabelHeadTest, RanksAndAdaptersLearnTheSameCurve) {
  for (const bool adapters : {false, true}) {
    v1::RunSpec spec = Spec(adapters, 60);
    const auto expected = *Trained(spec).ReadMetrics(0);
    EXPECT_LT(expected.back().loss(), 0.7 * expected.front().loss()) << adapters;
    EXPECT_GT(expected.back().validation().loss(), 0);
    EXPECT_EQ(expected.back().validation().has_accuracy(), !regression());
    spec = Spec(adapters, 8);
    // The first steps of Adam are as long for gradients of rounding size as for others, and their
    // signs depend on the order of sums. A large epsilon makes a step as precise as its gradient.
    spec.mutable_optimizer()->set_epsilon(1e-3);
    const auto few = *Trained(spec).ReadMetrics(0);
    spec.set_world_size(2);
    spec.mutable_batch()->set_micro_batch_size(1);
    const RunDirectory run(NewDirectory("ranks"));
    EXPECT_OK(TrainOnRanks(run, spec));
    const auto got = *run.ReadMetrics(0);
    ASSERT_EQ(got.size(), few.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss(), few[i].loss(), 2e-5 * few[i].loss()) << i;
      EXPECT_NEAR(got[i].validation().loss(), few[i].validation().loss(), 1e-4) << i;
      EXPECT_EQ(got[i].validation().accuracy(), few[i].validation().accuracy()) << i;
    }
  }
}

// The oracle takes the highest logit after each held-out prompt.
TEST_P(LabelHeadTest, AccuracyIsThatOfTheHighestScoreOnAnyNumberOfRanks) {
  if (regression()) return;
  std::set<double> seen;
  for (const int64_t steps : {1, 4, 60}) {
    const v1::RunSpec spec = Spec(false, steps);
    const RunDirectory run = Trained(spec);
    const auto model = LoadModel(NewestOf(run)).value();
    double correct = 0;
    const std::vector<TinyExample> heldout = TinyLabeledExamples(4, false);
    for (const TinyExample& example : heldout) {
      const std::vector<int32_t> prompt(example.tokens.begin(), example.tokens.end() - 1);
      const std::vector<float> all = model->Logits(prompt, 1).value();
      const auto scores = std::span(all).last(3);
      correct +=
          std::ranges::max_element(scores) - scores.begin() == static_cast<int64_t>(example.label);
    }
    const double expected = correct / static_cast<double>(heldout.size());
    seen.insert(expected);
    EXPECT_EQ(run.ReadMetrics(0)->back().validation().accuracy(), expected) << steps;
    for (const int ranks : {1, 2, 3}) {
      const auto results = RunThreadedRanks(ranks, [&](Communicator& communicator) {
        const auto own = LoadModel(NewestOf(run)).value();
        const auto metrics = Validation::Open(spec)->Score(*own, communicator);
        if (!metrics.ok()) return metrics.status();
        EXPECT_EQ(metrics->accuracy(), expected) << ranks;
        return absl::OkStatus();
      });
      for (const absl::Status& status : results) EXPECT_OK(status);
    }
  }
  EXPECT_GT(seen.size(), 1u) << "training changes the accuracy";
}

TEST_P(LabelHeadTest, CheckpointsHoldTheHeadAndResumeToTheSameBits) {
  v1::RunSpec spec = Spec(true, 11);
  spec.mutable_checkpoint()->set_every_steps(3);
  const RunDirectory whole = Trained(spec), run(NewDirectory("stopped"));
  ASSERT_OK(run.WriteSpec(spec));
  EXPECT_EQ(TrainAlone(run, spec, 4).value(), TrainingOutcome::kInterrupted);
  ASSERT_OK(TrainAlone(run, spec));
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
  const fs::path checkpoint = NewestOf(whole);
  const SafetensorsFile file = SafetensorsFile::Open(checkpoint / "model.safetensors").value();
  EXPECT_EQ(file.tensors().size(), 2u * 2 * 7 + 1);
  EXPECT_TRUE(std::ranges::any_of(
      file.tensors(), [](const TensorInfo& tensor) { return tensor.name == kLabelHead; }));
  // The loaded model and its decoder compute what the model in training does.
  const auto merged = LoadModel(checkpoint).value();
  const CheckpointState record = ReadCheckpointState(checkpoint).value();
  const TrainingState state = RestoreState(checkpoint, spec, record.dataset_key, 0).value();
  const std::vector<int32_t> prompt = {4, 12, 41};
  const auto a = state.model->Logits(prompt, 1).value(), b = merged->Logits(prompt, 1).value();
  const auto last = merged->NewDecoder(MergeMode::kPrompt)->Prefill(prompt).value();
  ASSERT_EQ(last.size(), regression() ? 1u : 3u);
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_NEAR(last[i], b[b.size() - last.size() + i], 1e-4);
  }
  // A run may continue with the head of another run.
  const v1::RunSpec next = TinyAdapterSpec(packed_, whole, 2);
  EXPECT_EQ(next.model().label_head().SerializeAsString(),
            spec.model().label_head().SerializeAsString());
  const TrainingState start = InitialState(next, 0).value();
  const std::vector<float> continued = start.model->Logits(prompt, 1).value();
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(continued[i], b[i], 1e-4);
}

TEST_P(LabelHeadTest, HeadsThatDoNotFitAreRefused) {
  const RunDirectory run = Trained(Spec(true, 2));
  // Tokens after labels.
  const fs::path answers = NewDirectory("answers");
  WriteTinySupervised(answers, TinyExamples(6), 3);
  v1::RunSpec spec;
  spec.set_init_from(NewestOf(run).string());
  spec.set_dataset_dir(answers.string());
  spec.set_num_steps(2);
  EXPECT_FAILS(ResolveRunSpec(spec), StatusCode::kInvalidArgument, "model.label_head: got ",
               "expected no labels as in dataset answers");
  // Other classes.
  const fs::path other = NewDirectory("other");
  WriteTinySupervised(other, TinyLabeledExamples(6, false), 3,
                      {.classes = {"x", "y", "z"}, .regression = false});
  spec.set_dataset_dir(other.string());
  EXPECT_FAILS(ResolveRunSpec(spec), StatusCode::kInvalidArgument,
               "model.label_head: got classes x, y, z, expected ",
               "as in the weights of init_from");
  EXPECT_FAILS(CheckPredictsTokens(ReadCheckpointState(NewestOf(run))->model, "run-1"),
               StatusCode::kFailedPrecondition, "run-1: got a model with a label head");
  // Labels that are damaged.
  const fs::path broken = NewDirectory("broken");
  WriteTinySupervised(broken, examples_, 1, Labels());
  std::vector<float> labels(static_cast<size_t>(kExamples), 1.5f);
  if (regression()) labels.pop_back();
  ASSERT_OK(WriteLabels(broken / kLabelsName, labels));
  SealDataset(broken);
  const v1::RunSpec resolved = TinyAdapterSpec(broken, base(), 2);
  EXPECT_FAILS(TrainingData::Open(resolved, true).status(), StatusCode::kDataLoss,
               "labels.npy: ", regression() ? "expected [36]" : "expected a class below 3");
}

TEST(LabelHeadConfigTest, ClassesAndLossesAreChecked) {
  v1::ModelConfig config;
  config.set_preset("tiny");
  config.mutable_label_head();
  EXPECT_FAILS(ResolveModelConfig(config), StatusCode::kInvalidArgument,
               "model.label_head.classes: got 0 names, expected two or more");
  for (const char* name : {"a", "b", "a"}) config.mutable_label_head()->add_classes(name);
  EXPECT_FAILS(ResolveModelConfig(config), StatusCode::kInvalidArgument, "got \"a\" twice");
  config.mutable_label_head()->mutable_classes()->RemoveLast();
  EXPECT_OK(ResolveModelConfig(config));
  config.set_z_loss(1e-4);
  EXPECT_FAILS(ResolveModelConfig(config), StatusCode::kInvalidArgument,
               "model.z_loss: got a term of the logits of tokens with label_head");
  config.clear_z_loss();
  config.mutable_label_head()->set_regression(true);
  EXPECT_FAILS(ResolveModelConfig(config), StatusCode::kInvalidArgument,
               "got 2 names with regression, expected none");
}

}  // namespace label_head_test
}  // namespace braid
