// Runs on answers: losses, validation, learning rates, noise, and what is refused.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "formats/indexed_dataset.h"
#include "formats/packed_dataset.h"
#include "formats/supervised_spans.h"
#include "model/config/decoder.h"
#include "model/config/model_config.h"
#include "runs/main_figures.h"
#include "runs/run_spec.h"
#include "runs/starting_point.h"
#include "tests/base/largest_difference.h"
#include "tests/trainer/finetuning_fixture.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "trainer/gradient_pass.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/training_data.h"
#include "trainer/training_state.h"
#include "trainer/validation.h"

namespace braid {
namespace finetuning_runs_test {

namespace fs = std::filesystem;

class FinetuningRunsTest : public FinetuningFixture {
 protected:
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
      EXPECT_LT(LargestDifference(first.gradients, other.gradients), 1e-5 * std::max(1.0, largest))
          << dataset << " " << micro;
    }
  }
};

// Chats may end their turns with the token that ends documents.
TEST_F(FinetuningRunsTest, ExamplesAreSeenWholeUnlessTheirMaskIsAskedFor) {
  StartingPoint start = FindStartingPoint(base().root().string()).value();
  const DatasetInfo text = ReadDatasetInfo(text_).value(), chats = ReadDatasetInfo(packed_).value();
  start.model.set_attention_mask(v1::DOCUMENT);
  start.model.set_document_end(text.eos_id);
  v1::RunSpec spec;
  spec.set_dataset_dir(packed_.string());
  const auto resolved = [&](const DatasetInfo& data) {
    return ResolveRunSpec(spec, data, start).value();
  };
  EXPECT_EQ(resolved(text).model().attention_mask(), v1::DOCUMENT);
  const v1::RunSpec open = resolved(chats);
  EXPECT_EQ(open.model().attention_mask(), v1::ATTENTION_MASK_UNSPECIFIED);
  EXPECT_FALSE(open.model().has_document_end());
  EXPECT_EQ(ResolveRunSpec(open, chats, start)->DebugString(), open.DebugString());
  spec.mutable_model()->set_attention_mask(v1::DOCUMENT);
  EXPECT_EQ(resolved(chats).model().attention_mask(), v1::DOCUMENT);
}

TEST_F(FinetuningRunsTest, LossIsTheMeanOverAnswersHoweverTheyAreBatched) {
  const auto model = LoadModel(NewestOf(base())).value();
  ExpectMeanOverAnswers(*model);
  // Learned positions restart in every example.
  v1::ModelConfig gpt2 = model->config();
  gpt2.set_family(v1::GPT2);
  gpt2.clear_rope_theta();
  ExpectMeanOverAnswers(*LanguageModel::Create(ResolveModelConfig(gpt2).value(), 3).value());
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

// Sequences of 32 have segments of 8 here, and most answers of the first of three examples lie in
// the first segment.
TEST_F(FinetuningRunsTest, TrainingLossIsOverAllAnswersHoweverLongSegmentsAre) {
  v1::RunSpec spec = TinyDenseSpec(packed_, 3);
  spec.mutable_model()->mutable_routing()->set_segment_length(8);
  const auto steps = *Trained(ResolveRunSpec(spec).value()).ReadMetrics(0);
  ASSERT_EQ(steps.size(), 3u);
  for (const v1::StepMetrics& step : steps) {
    EXPECT_EQ(step.loss_after_first_segment(), 0);
    EXPECT_GT(step.loss(), 0);
    EXPECT_EQ(MainLoss(step), step.loss());
  }
  spec.set_dataset_dir(text_.string());
  EXPECT_GT(Trained(ResolveRunSpec(spec).value()).ReadMetrics(0)->back().loss_after_first_segment(),
            0);
}

// Trained on the validation part itself, a model comes to know its answers one after the other. The
// oracle looks at the logits of each example alone.
TEST_F(FinetuningRunsTest, AccuracyIsTheShareOfAnswersWhoseTokensAllHaveTheHighestLogit) {
  const std::vector<TinyExample> heldout = TinyExamples(4, 77);
  std::vector<TinyExample> examples;
  for (int i = 0; i < 9; ++i) examples.insert(examples.end(), heldout.begin(), heldout.end());
  const fs::path dataset = NewDirectory("known");
  WriteTinySupervised(dataset, examples, 3);
  std::set<double> seen;
  for (const int64_t steps : {1, 25, 60, 200}) {
    v1::RunSpec spec = TinyDenseSpec(dataset, steps);
    spec.mutable_optimizer()->set_learning_rate(1e-2);
    spec.mutable_validation()->set_windows(2);
    spec.mutable_validation()->mutable_every()->set_steps(steps);
    spec = ResolveRunSpec(spec).value();
    const RunDirectory run = Trained(spec);
    const auto model = LoadModel(NewestOf(run)).value();
    double right = 0, answers = 0;
    for (const TinyExample& example : heldout) {
      const std::vector<float> logits = model->Logits(example.tokens, 1).value();
      const size_t vocabulary = logits.size() / example.tokens.size();
      for (const auto& [begin, end] : example.answers) {
        bool correct = true;
        for (int32_t t = begin; t < end; ++t) {
          const auto row = std::span(logits).subspan((t - 1) * vocabulary, vocabulary);
          correct &= std::ranges::max_element(row) - row.begin() == example.tokens[t];
        }
        ++answers;
        right += correct;
      }
    }
    EXPECT_EQ(answers, 5) << "one example has two";
    seen.insert(right / answers);
    EXPECT_EQ(run.ReadMetrics(0)->back().validation().accuracy(), right / answers) << steps;
    for (const int ranks : {1, 2, 3}) {
      const auto results = RunThreadedRanks(ranks, [&](Communicator& communicator) {
        const auto own = LoadModel(NewestOf(run)).value();
        const auto metrics = Validation::Open(spec)->Score(*own, communicator);
        if (!metrics.ok()) return metrics.status();
        EXPECT_EQ(metrics->accuracy(), right / answers) << ranks;
        return absl::OkStatus();
      });
      for (const absl::Status& status : results) EXPECT_OK(status);
    }
  }
  EXPECT_GT(seen.size(), 1u) << "training changes the accuracy";
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

// A dense model that becomes one with experts is trained with the same settings as before.
TEST_F(FinetuningRunsTest, SettingsOutliveTheUpcycling) {
  v1::RunSpec spec = TinySpec(text_, 12);
  v1::Finetuning* const tuning = spec.mutable_finetuning();
  tuning->set_embedding_noise(5);
  tuning->set_label_smoothing(0.1);
  v1::LearningRateGroup* const norms = tuning->add_learning_rates();
  norms->set_pattern("*norm*");
  norms->set_factor(0);
  spec = ResolveRunSpec(spec).value();
  const RunDirectory whole = Trained(spec), stopped(NewDirectory("run"));
  ASSERT_OK(TrainAlone(stopped, spec, 6));  // after 3 steps of the dense model
  ASSERT_OK(TrainAlone(stopped, spec));
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
}

TEST_F(FinetuningRunsTest, SpeedIsThatOfABatchThatGrows) {
  v1::RunSpec spec = TinyDenseSpec(packed_, 6);
  spec.mutable_batch()->set_first_batch_size(2);
  spec.mutable_batch()->mutable_warmup()->set_steps(4);
  const auto metrics = *Trained(ResolveRunSpec(spec).value()).ReadMetrics(0);
  ASSERT_EQ(metrics.size(), 6u);
  const double sequences[] = {2, 2, 3, 3, 4, 4};
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_NEAR(metrics[i].tokens_per_second() * metrics[i].step_seconds(), 32 * sequences[i], 1e-6)
        << i;
  }
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
