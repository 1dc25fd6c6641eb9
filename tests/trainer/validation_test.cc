#include "trainer/validation.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "braid/v1/evaluation.pb.h"
#include "evaluation/perplexity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/checkpoint_directory.h"
#include "runs/main_figures.h"
#include "runs/run_spec.h"
#include "runs/validation_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace validation_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(AllotWindowsTest, SharesAreProportionalAndEveryDomainHasOne) {
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(AllotWindows(Counts{60, 30, 10}, 10), (Counts{6, 3, 1}));
  EXPECT_EQ(AllotWindows(Counts{980, 10, 10}, 5), (Counts{3, 1, 1}));
  EXPECT_EQ(AllotWindows(Counts{5, 3}, 100), (Counts{5, 3}));
  EXPECT_EQ(AllotWindows(Counts{5, 0, 3}, 4), (Counts{3, 0, 1}));
  EXPECT_EQ(AllotWindows(Counts{0, 0}, 4), (Counts{0, 0}));
  uint64_t state = 1;
  for (int trial = 0; trial < 200; ++trial) {
    Counts available;
    for (int d = 0; d < 1 + trial % 5; ++d) available.push_back(1 + NextSplitMix64(&state) % 40);
    const int64_t total = std::accumulate(available.begin(), available.end(), int64_t{0});
    const int64_t wanted =
        std::ssize(available) + static_cast<int64_t>(NextSplitMix64(&state) % 90);
    const Counts counts = AllotWindows(available, wanted);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), std::min(wanted, total));
    for (size_t d = 0; d < counts.size(); ++d) {
      EXPECT_GE(counts[d], 1);
      EXPECT_LE(counts[d], available[d]);
    }
  }
}

TEST(CompareWithBestTest, FollowsTheLowestLossAndCountsPatience) {
  ValidationHistory history;
  const auto compare = [&](int64_t step, double loss) {
    v1::ValidationMetrics metrics;
    metrics.set_loss(loss + 1);
    metrics.set_loss_after_first_segment(loss);
    CompareWithBest(step, 2, &history, &metrics);
    return metrics;
  };
  EXPECT_EQ(compare(10, 3.0).best_step(), 10);
  EXPECT_EQ(compare(20, 2.5).best_step(), 20);
  EXPECT_FALSE(compare(30, 2.5).stopped_early()) << "an equal loss is not better";
  EXPECT_EQ(history.num_worse, 1);
  EXPECT_EQ(compare(40, 2.4).best_step(), 40);
  EXPECT_FALSE(compare(50, std::numeric_limits<double>::quiet_NaN()).stopped_early());
  const v1::ValidationMetrics last = compare(60, 2.6);
  EXPECT_TRUE(last.stopped_early());
  EXPECT_EQ(last.best_step(), 40);
  EXPECT_EQ(last.best_loss(), 2.4);
}

class ValidationTest : public testing::Test {
 protected:
  ValidationTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  // Evaluations need a real tokenizer.
  void UseText() { dataset_ = NewTextDataset(NewTokenizer("dogs and cats ran 1234567890", 285)); }

  v1::RunSpec Spec(int64_t num_steps, int64_t every, int64_t windows) {
    v1::RunSpec spec = TinySpec(dataset_, num_steps);
    spec.mutable_validation()->mutable_every()->set_steps(every);
    spec.mutable_validation()->set_windows(windows);
    spec.mutable_checkpoint()->set_every_steps(1000);
    return *ResolveRunSpec(spec);
  }

  static RunDirectory Trained(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    EXPECT_OK(TrainOnRanks(run, spec));
    return run;
  }

  static std::vector<v1::ValidationMetrics> Validations(const RunDirectory& run) {
    std::vector<v1::ValidationMetrics> validations;
    const auto metrics = run.ReadMetrics(0);
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    for (const v1::StepMetrics& step : *metrics) {
      if (step.has_validation()) validations.push_back(step.validation());
    }
    return validations;
  }

  static v1::EvaluationResult Evaluated(const RunDirectory& run) {
    v1::EvaluateRequest request;
    request.add_models(run.root().string());
    request.set_want_windows(true);
    request.set_num_threads(1);
    v1::EvaluationResult result;
    const absl::Status status = Evaluate(
        request, nullptr, [&](const v1::EvaluateEvent& event) { result = event.result(); });
    EXPECT_TRUE(status.ok()) << status;
    if (result.evaluations().empty()) result.add_evaluations();
    return result;
  }

  fs::path dataset_;
};

// Evaluations score several windows per pass, which changes the last digits of 32-bit numbers.
TEST_F(ValidationTest, IsTheFigureOfAnEvaluationOnAllWindows) {
  UseText();
  const RunDirectory run = Trained(Spec(12, 4, 8));
  const auto validations = Validations(run);
  ASSERT_EQ(validations.size(), 3u);
  const v1::Evaluation evaluation = Evaluated(run).evaluations(0);
  EXPECT_EQ(validations.back().num_windows(), 8);
  EXPECT_NEAR(validations.back().loss(), evaluation.total().loss(), 1e-6);
  EXPECT_NEAR(validations.back().loss_after_first_segment(),
              evaluation.total().loss_after_first_segment(), 1e-6);
  ASSERT_EQ(validations.back().domains_size(), 2);
  ASSERT_EQ(evaluation.domains_size(), 2);
  for (int d = 0; d < 2; ++d) {
    const v1::ValidationDomain& domain = validations.back().domains(d);
    EXPECT_EQ(domain.domain(), evaluation.domains(d).domain());
    EXPECT_NEAR(domain.loss(), evaluation.domains(d).loss(), 1e-6);
  }
}

// With fewer windows, the oracle adds up the sampled windows of the evaluation.
TEST_F(ValidationTest, IsTheFigureOfAnEvaluationOnTheSampledWindows) {
  UseText();
  const v1::RunSpec spec = Spec(6, 6, 4);
  const RunDirectory run = Trained(spec);
  const auto validation = Validation::Open(spec);
  ASSERT_TRUE(validation.ok()) << validation.status();
  EXPECT_EQ(validation->num_windows(), 4);
  const v1::Evaluation evaluation = Evaluated(run).evaluations(0);
  ASSERT_EQ(evaluation.domains_size(), 2);
  double nats = 0, tokens = 0;
  for (int d = 0; d < 2; ++d) {
    for (const int64_t window : validation->domains()[d].windows) {
      const v1::WindowScore& score = evaluation.domains(d).windows(static_cast<int>(window));
      nats += score.loss();
      tokens += static_cast<double>(score.num_tokens());
    }
  }
  EXPECT_NEAR(Validations(run).back().loss(), nats / tokens, 1e-6);
}

TEST_F(ValidationTest, SampleDependsOnTheSeedAlone) {
  const auto sample = [&](uint64_t seed) {
    v1::RunSpec spec = Spec(6, 6, 4);
    spec.set_seed(seed);
    std::string text;
    const auto validation = Validation::Open(spec);
    for (const auto& domain : validation->domains()) {
      for (const int64_t window : domain.windows) absl::StrAppend(&text, domain.name, window, " ");
    }
    return text;
  };
  EXPECT_EQ(sample(1), sample(1));
  std::set<std::string> samples;
  for (uint64_t seed = 0; seed < 8; ++seed) samples.insert(sample(seed));
  EXPECT_GT(samples.size(), 1u);
}

// Weights after a step differ in the last digits between numbers of ranks, so the ranks score the
// same weights here: bits must be equal.
TEST_F(ValidationTest, RanksAndMicroBatchesDoNotChangeABit) {
  const v1::RunSpec spec = Spec(6, 6, 7);
  std::vector<std::string> results;
  for (const int world_size : {1, 2, 3}) {
    RunThreadedRanks(world_size, [&](Communicator& ranks) -> absl::Status {
      v1::RunSpec own = spec;
      own.mutable_batch()->set_micro_batch_size(world_size);
      const auto state = InitialState(own, 0);
      const auto validation = Validation::Open(own);
      const auto metrics = validation->Score(*state->model, ranks);
      if (ranks.rank() == 0) results.push_back(metrics->SerializeAsString());
      return metrics.status();
    });
  }
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

// The rate rises until the loss does.
TEST_F(ValidationTest, BestCheckpointOutlivesNewerOnes) {
  v1::RunSpec spec = Spec(20, 4, 8);
  spec.mutable_optimizer()->set_learning_rate(0.9);
  spec.mutable_optimizer()->mutable_warmup()->set_steps(20);
  spec.mutable_checkpoint()->set_every_steps(2);
  spec.mutable_checkpoint()->set_keep_last(1);
  const RunDirectory run = Trained(spec);
  const auto validations = Validations(run);
  const int64_t best = validations.back().best_step();
  ASSERT_LT(best, 20);
  const auto lowest =
      std::min_element(validations.begin(), validations.end(),
                       [](const auto& a, const auto& b) { return MainLoss(a) < MainLoss(b); });
  EXPECT_EQ(best, 4 * (lowest - validations.begin() + 1));
  EXPECT_THAT(*CheckpointSteps(run.checkpoints()), ElementsAre(20, best));
}

TEST_F(ValidationTest, StopsEarlyAndStaysStopped) {
  v1::RunSpec spec = Spec(100, 2, 8);
  spec.mutable_optimizer()->set_learning_rate(0.3);
  spec.mutable_validation()->set_patience(2);
  const RunDirectory run = Trained(spec);
  const auto last = run.ReadNewestMetrics();
  ASSERT_TRUE(last.has_value());
  ASSERT_LT(last->step(), 100);
  EXPECT_TRUE(last->validation().stopped_early());
  EXPECT_EQ(last->step(), last->validation().best_step() + 4);
  EXPECT_EQ(CheckpointSteps(run.checkpoints())->front(), last->step());
  EXPECT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), last->step()) << "a resume trains no further";
}

TEST_F(ValidationTest, ResumeIsBitExact) {
  const v1::RunSpec spec = Spec(20, 3, 5);
  const RunDirectory whole = Trained(spec);
  for (const int64_t stop_after : {3, 7}) {
    RunDirectory run(NewDirectory("run"));
    ASSERT_EQ(*TrainAlone(run, spec, stop_after), TrainingOutcome::kInterrupted);
    ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(run), LossLines(whole)) << stop_after;
    EXPECT_EQ(NewestWeights(run), NewestWeights(whole)) << stop_after;
  }
}

TEST_F(ValidationTest, DoesNotChangeTraining) {
  v1::RunSpec spec = Spec(12, 3, 5);
  const RunDirectory validated = Trained(spec);
  spec.clear_validation();
  const RunDirectory plain = Trained(*ResolveRunSpec(spec));
  EXPECT_EQ(NewestWeights(validated), NewestWeights(plain));
}

TEST_F(ValidationTest, IntervalInTokensIsRoundedUpToSteps) {
  v1::RunSpec spec = TinySpec(dataset_, 100);  // steps of 4 sequences of 32 tokens
  for (const auto& [tokens, steps] : {std::pair(4 * 32 * 3, 3), {4 * 32 * 3 + 1, 4}}) {
    spec.mutable_validation()->mutable_every()->set_tokens(tokens);
    EXPECT_EQ(ResolveRunSpec(spec)->validation().every().steps(), steps);
  }
}

TEST_F(ValidationTest, DefaultNumberOfWindowsIsOnePerHundredSequences) {
  const auto windows = [&](int64_t every, int64_t batch) {
    v1::RunSpec spec = TinySpec(dataset_, 10000);
    spec.mutable_batch()->set_global_batch_size(static_cast<int32_t>(batch));
    spec.mutable_validation()->mutable_every()->set_steps(every);
    return ResolveRunSpec(spec)->validation().windows();
  };
  EXPECT_EQ(windows(500, 4), 20);
  EXPECT_EQ(windows(500, 64), 320);
  EXPECT_EQ(windows(10, 4), 2) << "at least one per domain";
}

// The last interval may be shorter than the others, a run shorter than one interval, and a batch
// smaller than at the end.
TEST_F(ValidationTest, DefaultNumberOfWindowsFollowsWhatTheRunTrainsOn) {
  const auto windows = [&](int64_t num_steps, int64_t every, int32_t first_batch) {
    v1::RunSpec spec = TinySpec(dataset_, num_steps);
    spec.mutable_batch()->set_global_batch_size(64);
    if (first_batch > 0) {
      spec.mutable_batch()->set_first_batch_size(first_batch);
      spec.mutable_batch()->mutable_warmup()->set_steps(num_steps);
    }
    spec.mutable_validation()->mutable_every()->set_steps(every);
    return ResolveRunSpec(spec)->validation().windows();
  };
  EXPECT_EQ(windows(1000, 1000, 0), 640);
  EXPECT_EQ(windows(1000, 100000, 0), 640);
  EXPECT_EQ(windows(1001, 1000, 0), 320) << "two validations";
  EXPECT_NEAR(static_cast<double>(windows(1000, 1000, 4)), 340, 10) << "34 sequences on average";
}

// A forward pass takes a third of the arithmetic of training on the same tokens.
TEST_F(ValidationTest, CostIsThatOfTheForwardPassesOfTheSlowestRank) {
  const auto cost = [&](int64_t num_steps, int64_t every, int64_t windows, int32_t ranks) {
    v1::RunSpec spec = TinyDenseSpec(dataset_, num_steps);
    spec.set_world_size(ranks);
    spec.mutable_validation()->mutable_every()->set_steps(every);
    return CostOfValidation(spec, windows);
  };
  const auto share = [](double validation, double training) {
    return validation / (validation + training);
  };
  EXPECT_NEAR(cost(1000, 100, 4, 1).share, share(10 * 4 / 3.0, 4000), 1e-9);
  EXPECT_NEAR(cost(1000, 100, 4, 4).share, share(10 * 1 / 3.0, 1000), 1e-9);
  EXPECT_NEAR(cost(1000, 100, 5, 4).share, share(10 * 2 / 3.0, 1000), 1e-9);
  EXPECT_EQ(cost(1000, 100, 0, 1).share, 0);
  const int64_t affordable = cost(1000, 1, 2, 1).affordable_steps;
  EXPECT_LE(cost(1000, affordable, 2, 1).share, kMaxValidationShare);
  EXPECT_GT(cost(1000, affordable - 1, 2, 1).share, kMaxValidationShare);
  EXPECT_EQ(cost(10, 5, 8, 1).affordable_steps, 0);
}

TEST_F(ValidationTest, DefaultTakesAtMostOnePercentWithSeveralWindowsPerDomainOrRank) {
  int num_bounded = 0;
  for (const int64_t every : {1, 7, 100, 333, 2000, 9000}) {
    for (const int32_t batch : {8, 64}) {
      for (const int32_t ranks : {1, 3, 8}) {
        v1::RunSpec spec = TinySpec(dataset_, 3001);
        spec.set_world_size(ranks);
        spec.mutable_batch()->set_global_batch_size(batch);
        spec.mutable_validation()->mutable_every()->set_steps(every);
        spec = *ResolveRunSpec(spec);
        const int64_t windows = spec.validation().windows();
        if (windows <= 2) continue;  // one per domain
        ++num_bounded;
        EXPECT_LE(CostOfValidation(spec, windows).share, kMaxValidationShare)
            << every << " " << batch << " " << ranks;
      }
    }
  }
  EXPECT_GT(num_bounded, 20);
}

TEST_F(ValidationTest, LogNamesTheCostAndTheIntervalThatIsAffordable) {
  v1::RunSpec spec = TinyDenseSpec(dataset_, 1000);
  spec.mutable_validation()->mutable_every()->set_steps(100);
  EXPECT_EQ(ValidationCostText(spec, 4),
            "validation: 4 windows every 100 steps, about 0.33 % of the time");
  spec.mutable_validation()->mutable_every()->set_steps(2);
  EXPECT_EQ(ValidationCostText(spec, 2),
            "validation: 2 windows every 2 steps, about 7.7 % of the time; with validation.every "
            "of at least 17 steps it is at most 1 %");
  const v1::RunSpec short_spec = Spec(4, 2, 8);
  EXPECT_THAT(ValidationCostText(short_spec, 8), HasSubstr("; one validation alone takes more"));
  std::ostringstream out;
  EXPECT_OK(
      TrainAlone(RunDirectory(NewDirectory("run")), short_spec, -1, &std::cerr, &out).status());
  EXPECT_THAT(out.str(), HasSubstr(ValidationCostText(short_spec, 8) + "\n"));
}

TEST_F(ValidationTest, RefusesSettingsThatCannotWork) {
  const auto error = [&](const std::function<void(v1::ValidationConfig*)>& change) {
    v1::RunSpec spec = TinySpec(dataset_, 100);
    change(spec.mutable_validation());
    return std::string(ResolveRunSpec(spec).status().message());
  };
  EXPECT_THAT(error([](auto* v) { v->set_patience(3); }),
              HasSubstr("validation.every: got nothing with validation.patience"));
  EXPECT_THAT(error([](auto* v) { v->mutable_every()->set_steps(0); }),
              HasSubstr("validation.every: got 0, expected at least 1 step"));
  EXPECT_THAT(error([](auto* v) {
                v->mutable_every()->set_steps(5);
                v->set_windows(1);
              }),
              HasSubstr("validation.windows: got 1, expected at least 2, one per domain"));
  EXPECT_THAT(error([](auto* v) {
                v->mutable_every()->set_steps(5);
                v->set_patience(-1);
              }),
              HasSubstr("validation.patience: got -1"));
}

TEST_F(ValidationTest, WithoutAHeldoutSplitSaysHowToGetOne) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  DatasetInfo info = *ReadDatasetInfo(dataset);
  info.domains.clear();
  ASSERT_TRUE(WriteDatasetInfo(dataset, info).ok());
  v1::RunSpec spec = TinySpec(dataset, 100);
  spec.mutable_validation()->mutable_every()->set_steps(5);
  const auto status = ResolveRunSpec(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("positive pack.heldout_fraction"));
}

}  // namespace validation_test
}  // namespace braid
