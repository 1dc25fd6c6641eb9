// Runs whose tokens choose their experts: frozen gates, and a number of active experts that grows.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "cli/corpus_documents.h"
#include "evaluation/perplexity.h"
#include "formats/packed_dataset.h"
#include "gtest/gtest.h"
#include "inference/kept_experts.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"
#include "tests/trainer/trainer_program.h"
#include "trainer/data_loader.h"
#include "trainer/training_loop.h"
#include "trainer/training_state.h"

namespace braid {
namespace token_choice_runs_test {

namespace fs = std::filesystem;

// 8 experts of 4 units, of which a token uses first to 8 over the run.
v1::RunSpec GrowingSpec(const fs::path& dataset, int64_t num_steps, int first) {
  v1::RunSpec spec = TinySpec(dataset, num_steps);
  v1::RoutingConfig* routing = spec.mutable_model()->mutable_routing();
  routing->set_num_experts(8);
  routing->set_router(v1::TOKEN_CHOICE);
  routing->mutable_token()->set_gate(v1::TokenRouting::FROZEN);
  spec.mutable_upcycling()->set_dense_fraction(0);
  spec.mutable_growth()->set_first(first);
  return ResolveRunSpec(spec).value();
}

std::vector<int> ActiveExpertsOf(const RunDirectory& run) {
  std::vector<int> active;
  const std::vector<v1::StepMetrics> steps = run.ReadMetrics(0).value();
  for (const v1::StepMetrics& step : steps) {
    active.push_back(step.active_experts());
  }
  return active;
}

v1::EvaluationResult EvaluateAt(const fs::path& run, const std::vector<int>& active) {
  v1::EvaluateRequest request;
  request.add_models(run.string());
  request.set_num_threads(1);
  request.mutable_active_experts()->Assign(active.begin(), active.end());
  v1::EvaluationResult result;
  const absl::Status status =
      Evaluate(request, ReadCorpusDocuments, [&](const v1::EvaluateEvent& event) {
        if (event.has_result()) result = event.result();
      });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

// Returns the error of a growth of GrowingSpec's model.
std::string GrowthError(int first, int last, double until, v1::Router router = v1::TOKEN_CHOICE) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = GrowingSpec(dataset, 10, 2);
  spec.mutable_growth()->set_first(first);
  spec.mutable_growth()->set_last(last);
  spec.mutable_growth()->set_until(until);
  if (router != v1::TOKEN_CHOICE) {
    spec.mutable_model()->mutable_routing()->set_router(router);
    spec.mutable_model()->mutable_routing()->clear_token();
  }
  return std::string(ResolveRunSpec(spec).status().message());
}

TEST(TokenChoiceRunsTest, GrowthThatShrinksOrPassesTheExpertsIsRefused) {
  EXPECT_EQ(GrowthError(2, 8, 1), "");
  EXPECT_EQ(GrowthError(0, 8, 1), "growth.first: got 0, expected 1 to the number of experts, 8");
  EXPECT_EQ(GrowthError(9, 9, 1), "growth.first: got 9, expected 1 to the number of experts, 8");
  EXPECT_EQ(GrowthError(4, 2, 1),
            "growth.last: got 2, expected 4 (growth.first) to 8, the number of experts");
  EXPECT_EQ(GrowthError(4, 9, 1),
            "growth.last: got 9, expected 4 (growth.first) to 8, the number of experts");
  EXPECT_EQ(GrowthError(2, 8, 0), "growth.until: got 0, expected more than 0 and at most 1");
  EXPECT_EQ(GrowthError(2, 8, 1, v1::CAUSAL_SEGMENT),
            "growth.first: got 2, expected model.routing.router: TOKEN_CHOICE, not CAUSAL_SEGMENT, "
            "to let the active experts grow");
}

// Counted again from the choices of one window at a time.
TEST(TokenChoiceRunsTest, ExpertUseIsCountedOverRealTokens) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const RunDirectory run(NewDirectory("run"));
  const v1::RunSpec spec = GrowingSpec(dataset, 2, 2);
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  const fs::path checkpoint = run.checkpoints() / "step-00000002";
  const auto model = LoadModel(checkpoint).value();
  const DatasetInfo info = ReadDatasetInfo(dataset).value();
  const DataLoader windows = DataLoader::Open(dataset / "instances", info).value();
  const int64_t count = windows.num_instances();  // the last one is short
  ExpertUse expected;
  for (const int layer : {0, 1}) expected[layer].resize(8);
  for (int64_t i = 0; i < count; ++i) {
    const Batch batch = windows.Load(std::vector<int64_t>{i}).value();
    const ForwardResult result =
        model->Evaluate(batch.inputs, batch.targets, 1, MergeMode::kSegment, true).value();
    for (const LayerRoutingWeights& layer : result.routing) {
      const size_t k = layer.chosen.size() / batch.inputs.size();
      for (size_t j = 0; j < static_cast<size_t>(batch.lengths[0]) * k; ++j) {
        ++expected[layer.layer][layer.chosen[j]];
      }
    }
  }
  const auto use = CountExpertUse(*model, checkpoint, dataset, count + 1);
  ASSERT_TRUE(use.ok()) << use.status();
  EXPECT_EQ(*use, expected);
  const auto few = CountExpertUse(*model, checkpoint, dataset, 1).value();
  const auto total = [](const std::vector<double>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0);
  };
  EXPECT_LT(total(few.at(0)), total(expected.at(0)));
  const fs::path other = NewDirectory("other");
  WriteTinyDataset(other);
  std::ofstream(other / "tokenizer.model") << "another";
  EXPECT_EQ(CountExpertUse(*model, checkpoint, other, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TokenChoiceRunsTest, ActiveExpertsGrowByTheFormulaFromFirstToLast) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = GrowingSpec(dataset, 21, 3);
  spec.mutable_growth()->set_until(0.5);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  const std::vector<int> active = ActiveExpertsOf(run);
  ASSERT_EQ(active.size(), 21u);
  for (int64_t step = 0; step < 21; ++step) {
    // 0.5 * 21 steps are 11 growing ones.
    const double grown = 3 + 5.0 * static_cast<double>(step) / 11;
    EXPECT_EQ(active[step], std::min(static_cast<int>(std::lround(grown)), 8)) << step;
  }
  EXPECT_TRUE(std::ranges::is_sorted(active));
  EXPECT_EQ(active.front(), 3);
  EXPECT_EQ(active.back(), 8);
}

TEST(TokenChoiceRunsTest, ResumeWhereTheNumberOfExpertsChangesIsBitExact) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const v1::RunSpec spec = GrowingSpec(dataset, 16, 2);
  const RunDirectory whole(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(whole, spec), TrainingOutcome::kComplete);
  const std::vector<int> active = ActiveExpertsOf(whole);
  for (const int stop : {2, 4, 9, 10}) {
    EXPECT_EQ(active[stop] != active[stop - 1], stop != 9) << stop;
    const RunDirectory stopped(NewDirectory("run"));
    ASSERT_EQ(*TrainAlone(stopped, spec, stop), TrainingOutcome::kInterrupted);
    ASSERT_EQ(*TrainAlone(stopped, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(stopped), LossLines(whole)) << stop;
    EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole)) << stop;
    EXPECT_EQ(ActiveExpertsOf(stopped), active) << stop;
  }
}

TEST(TokenChoiceRunsTest, FrozenGateKeepsItsBytesAndHasNoMomentsOnAnyNumberOfRanks) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  for (const int ranks : {1, 2, 3}) {
    v1::RunSpec spec = GrowingSpec(dataset, 200, 4);
    spec.set_world_size(ranks);
    const RunDirectory run(NewDirectory("run"));
    for (const int64_t stop_after : {90, -1}) {  // through a resume
      RunThreadedRanks(ranks, [&](Communicator& communicator) {
        std::ostringstream out;
        int64_t left = stop_after;
        LoopEnvironment environment;
        environment.communicator = &communicator;
        environment.now = StepClock();
        environment.out = &out;
        environment.stop_requested = [&left] { return left > 0 && --left == 0; };
        return TrainingLoop(run, spec, environment).Run().status();
      });
    }
    const auto initial = LanguageModel::Create(spec.model(), spec.seed()).value();
    spec.set_world_size(1);
    const std::string key = ReadDatasetInfo(dataset)->key;
    auto state = RestoreState(run.checkpoints() / "step-00000200", spec, key, /*rank=*/0).value();
    size_t offset = 0;
    int routers = 0;
    for (size_t i = 0; i < initial->parameters().size(); ++i) {
      const Parameter &before = initial->parameters()[i], &after = state.model->parameters()[i];
      const bool router = after.name.ends_with("router.weight");
      EXPECT_EQ(std::ranges::equal(before.value, after.value), router) << after.name;
      for (const std::vector<float>* moments : {&state.m, &state.v}) {
        const auto own = std::span(*moments).subspan(offset, after.value.size());
        EXPECT_EQ(std::ranges::all_of(own, [](float x) { return x == 0; }), router) << after.name;
      }
      offset += after.value.size();
      routers += router;
    }
    EXPECT_EQ(routers, 2);
  }
}

TEST(TokenChoiceRunsTest, MetricsShowTheLoadOfEachExpert) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, GrowingSpec(dataset, 10, 2)), TrainingOutcome::kComplete);
  const v1::StepMetrics last = run.ReadMetrics(0)->back();
  ASSERT_EQ(last.routing_size(), 2);
  for (const v1::LayerRouting& layer : last.routing()) {
    ASSERT_EQ(layer.load_size(), 8);
    double sum = 0, busiest = 0;
    int starved = 0;
    for (double load : layer.load()) {
      sum += load;
      busiest = std::max(busiest, load);
      starved += load < 1.0 / 32;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_NEAR(layer.busiest_over_mean(), 8 * busiest, 1e-9);
    EXPECT_EQ(layer.starved_experts(), starved);
    EXPECT_GT(layer.entropy(), 0);
  }
}

// The real program, killed after a checkpoint whose next step uses one expert more, then evaluated
// with several numbers.
TEST(TokenChoiceRunsTest, KilledTrainerResumesToTheSameBitsAndIsEvaluatedAtAnyNumber) {
  const fs::path dataset =
      NewTextDataset(NewTokenizer("the cat sat on the mat and the dog ran after the cat. ", 280));
  v1::RunSpec spec = GrowingSpec(dataset, 1200, 2);
  spec.mutable_growth()->set_until(0.4);
  spec.mutable_checkpoint()->set_every_steps(280);
  const auto start = [&](const RunDirectory& run) { return Trainer("train", run.root()); };
  const RunDirectory whole(NewDirectory("run")), killed(NewDirectory("run"));
  for (const RunDirectory* run : {&whole, &killed}) ASSERT_TRUE(run->WriteSpec(spec).ok());
  TestProgram undisturbed = start(whole);
  ASSERT_EQ(undisturbed.Wait(), 0) << undisturbed.err();
  TestProgram victim = start(killed);
  ASSERT_TRUE(WaitUntil([&] { return NewestCheckpointStep(killed.checkpoints()) > 0; },
                        std::chrono::seconds(60)))
      << victim.err();
  ASSERT_EQ(kill(victim.pid(), SIGKILL), 0);
  EXPECT_EQ(victim.Wait(), 128 + SIGKILL) << "it had ended before";
  const std::vector<int> active = ActiveExpertsOf(whole);
  // On a slow machine the signal may come after a later checkpoint.
  EXPECT_GE(NewestCheckpointStep(killed.checkpoints()), 280);
  EXPECT_EQ(active[280], active[279] + 1);
  TestProgram resumed = start(killed);
  ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
  EXPECT_EQ(LossLines(killed), LossLines(whole));
  EXPECT_EQ(NewestWeights(killed), NewestWeights(whole));

  const v1::EvaluationResult result = EvaluateAt(killed.root(), {1, 2, 4, 8, 4});
  ASSERT_EQ(result.evaluations_size(), 4);  // the repeated number once
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(result.evaluations(i).active_experts(), 1 << i);
    if (i == 0) continue;
    EXPECT_NE(result.evaluations(i).total().loss(), result.evaluations(i - 1).total().loss()) << i;
  }
  // Without a list, the number of the last step.
  const v1::EvaluationResult plain = EvaluateAt(killed.root(), {});
  ASSERT_EQ(plain.evaluations_size(), 1);
  EXPECT_EQ(plain.evaluations(0).active_experts(), 8);
  EXPECT_EQ(plain.evaluations(0).total().loss(), result.evaluations(3).total().loss());
}

TEST(TokenChoiceRunsTest, EvaluationNamesANumberThatTheModelDoesNotHave) {
  const fs::path dataset = NewTextDataset(NewTokenizer("the cat sat on the mat. ", 270));
  const RunDirectory run(NewDirectory("run"));
  const v1::RunSpec spec = GrowingSpec(dataset, 2, 8);
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  v1::EvaluateRequest request;
  request.add_models(run.root().string());
  request.add_active_experts(4);
  request.add_active_experts(9);
  const absl::Status status =
      Evaluate(request, ReadCorpusDocuments, [](const v1::EvaluateEvent&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            run.root().string() +
                ": active_experts[1]: got 9, expected 1 to 8, the number of experts of the model");
}

// A run that starts from a dense model copies it into experts before step 1, and again when a spike
// takes it back there. What is stored after the spike is the model that the step trains.
TEST(TokenChoiceRunsTest, ARollbackToTheDenseStartKeepsTheExpertsOfTheStep) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = GrowingSpec(dataset, 40, 1);
  spec.set_init_from(TinyBase(dataset).root().string());
  // At this rate the losses hardly fall, so every other one is above the median.
  spec.mutable_optimizer()->set_learning_rate(1e-4);
  spec.mutable_spikes()->set_policy(v1::ROLLBACK);
  spec.mutable_spikes()->set_threshold(1e-9);
  spec.mutable_spikes()->set_window(4);
  spec.mutable_checkpoint()->set_every_steps(1000);
  spec = ResolveRunSpec(spec).value();
  const RunDirectory whole(NewDirectory("run")), run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(whole, spec), TrainingOutcome::kComplete);
  const std::vector<v1::StepMetrics> steps = whole.ReadMetrics(0).value();
  const auto spike = std::ranges::find_if(steps, &v1::StepMetrics::has_spike);
  ASSERT_TRUE(spike != steps.end());
  EXPECT_EQ(spike->spike().first_skipped_step(), 1);
  ASSERT_EQ(*TrainAlone(run, spec, spike->step()), TrainingOutcome::kInterrupted);
  const CheckpointState stored =
      ReadCheckpointState(CheckpointPath(run.checkpoints(), spike->step())).value();
  EXPECT_TRUE(stored.upcycled);
  EXPECT_EQ(stored.model.routing().token().active_experts(), spike->active_experts());
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
}

// SMoE-Dropout, figure 1: after growing k, every doubling of the experts in use lowers the loss.
TEST(TokenChoiceRunsTest, LossFallsWithTheExpertsInUseAfterGrowingThem) {
  const fs::path dataset =
      NewTextDataset(NewTokenizer("the cat sat on the mat and the dog ran after "
                                  "the cat. ",
                                  280));
  v1::RunSpec spec = GrowingSpec(dataset, 400, 1);
  spec.set_seed(3);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  const v1::EvaluationResult result = EvaluateAt(run.root(), {1, 2, 4, 8});
  ASSERT_EQ(result.evaluations_size(), 4);
  for (int i = 1; i < 4; ++i) {
    EXPECT_LT(result.evaluations(i).total().loss(), result.evaluations(i - 1).total().loss())
        << (1 << i) << " experts";
  }
}

}  // namespace token_choice_runs_test
}  // namespace braid
