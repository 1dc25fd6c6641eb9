#include <cmath>
#include <sstream>

#include "formats/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/loop/tiny_run.h"
#include "trainer/data_loader.h"
#include "trainer/evaluation/perplexity.h"
#include "trainer/model_path.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class EvaluationTest : public testing::Test {
 protected:
  EvaluationTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  RunDirectory Trained() {
    const v1::RunSpec spec = TinySpec(dataset_, 8);
    RunDirectory run(NewDirectory("run"));
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    EXPECT_TRUE(TrainAlone(run, spec).ok());
    return run;
  }

  static v1::EvaluateRequest Request(const fs::path& model) {
    v1::EvaluateRequest request;
    request.add_models(model.string());
    request.set_num_threads(1);
    return request;
  }

  fs::path dataset_;
};

const auto kIgnoreProgress = [](int64_t, int64_t) {};

// One window at a time, losses added up by hand.
TEST_F(EvaluationTest, ScoresEveryWindowOnce) {
  SetModelThreads(1);
  v1::RunSpec spec = TinySpec(dataset_, 8);
  spec.mutable_upcycling()->set_dense_fraction(-1);
  auto model = std::move(InitialState(spec, 0)->model);
  const auto evaluation = EvaluateModel(*model, dataset_, {}, kIgnoreProgress);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_EQ(evaluation->domains_size(), 2);
  const DatasetInfo info = *ReadDatasetInfo(dataset_);
  double total = 0, total_after = 0;
  int64_t tokens = 0, tokens_after = 0;
  for (int64_t window = 0; window < 5; ++window) {
    const auto loader = DataLoader::Open(dataset_ / "heldout" / "even", info);
    const Batch batch = *loader->Load(std::vector<int64_t>{window});
    const auto result =
        *model->Evaluate(batch.inputs, batch.targets, 1, MergeMode::kSegment, false);
    for (int64_t t = 0; t < batch.lengths[0]; ++t) {
      total += result.token_loss[t];
      ++tokens;
      if (t >= 8) total_after += result.token_loss[t], ++tokens_after;
    }
  }
  const v1::DomainEvaluation& even = evaluation->domains(0);
  EXPECT_EQ(even.domain(), "even");
  EXPECT_EQ(even.num_tokens(), tokens);
  EXPECT_EQ(even.num_tokens_after_first_segment(), tokens_after);
  EXPECT_NEAR(even.loss(), total / static_cast<double>(tokens), 1e-5);
  EXPECT_NEAR(even.loss_after_first_segment(), total_after / static_cast<double>(tokens_after),
              1e-5);
  EXPECT_NEAR(even.perplexity(), std::exp(even.loss()), 1e-9);
  EXPECT_EQ(evaluation->total().num_tokens(), tokens + evaluation->domains(1).num_tokens());
  ASSERT_EQ(even.routing_size(), 2);
  double weight = 0;
  for (double w : even.routing(1).weights()) weight += w;
  EXPECT_NEAR(weight, 1, 1e-5);
}

TEST_F(EvaluationTest, LimitsWindows) {
  auto model = std::move(InitialState(TinySpec(dataset_, 8), 0)->model);
  const auto evaluation =
      EvaluateModel(*model, dataset_, {.max_windows_per_domain = 2}, kIgnoreProgress);
  EXPECT_EQ(evaluation->total().num_tokens(), 4 * 32);
}

TEST_F(EvaluationTest, RequestNamesARunOrACheckpoint) {
  const RunDirectory run = Trained();
  const fs::path checkpoint = run.checkpoints() / "step-00000008";
  std::vector<v1::EvaluateEvent> events;
  const auto emit = [&](const v1::EvaluateEvent& event) { events.push_back(event); };
  absl::Status status = Evaluate(Request(run.root()), emit);
  ASSERT_TRUE(status.ok()) << status;
  const v1::Evaluation by_run = events.back().result().evaluations(0);
  EXPECT_EQ(by_run.step(), 8);
  EXPECT_EQ(events.back().done(), 8);
  EXPECT_EQ(events.back().total(), 8);
  EXPECT_FALSE(events.front().has_result());
  ASSERT_TRUE(Evaluate(Request(checkpoint), emit).ok());
  EXPECT_EQ(events.back().result().evaluations(0).total().DebugString(),
            by_run.total().DebugString());
  v1::EvaluateRequest prompt = Request(checkpoint);
  prompt.add_routings(v1::PROMPT_ROUTING);
  ASSERT_TRUE(Evaluate(prompt, emit).ok());
  EXPECT_EQ(events.back().result().evaluations(0).routing(), v1::PROMPT_ROUTING);
  EXPECT_NE(events.back().result().evaluations(0).total().loss(), by_run.total().loss());
}

TEST_F(EvaluationTest, RefusesDataOfAnotherTokenizer) {
  const RunDirectory run = Trained();
  ASSERT_TRUE(WriteFileAtomically(dataset_ / "tokenizer.model", "another").ok());
  SealDataset(dataset_);
  const absl::Status status = Evaluate(Request(run.root()), [](const v1::EvaluateEvent&) {});
  EXPECT_THAT(std::string(status.message()), HasSubstr("another tokenizer"));
}

TEST_F(EvaluationTest, RefusesDamagedData) {
  const RunDirectory run = Trained();
  std::string bytes = *ReadFile(dataset_ / "heldout/odd.bin");
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(dataset_ / "heldout/odd.bin", bytes).ok());
  const absl::Status status = Evaluate(Request(run.root()), [](const v1::EvaluateEvent&) {});
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("heldout/odd.bin"), HasSubstr("CRC")));
}

TEST_F(EvaluationTest, ModelPathErrorsAreClear) {
  std::ostringstream warnings;
  const auto message = [&](const fs::path& path) {
    return std::string(FindModel(path, warnings).status().message());
  };
  EXPECT_THAT(message("/nowhere"), HasSubstr("/nowhere does not exist"));
  EXPECT_THAT(message(dataset_), HasSubstr("is not a model directory: expected a run directory"));
  EXPECT_THAT(message(dataset_ / "dataset.json"), testing::Not(testing::IsEmpty()));
  const RunDirectory empty(NewDirectory("run"));
  ASSERT_TRUE(empty.WriteSpec(TinySpec(dataset_, 8)).ok());
  EXPECT_THAT(message(empty.root()), HasSubstr("holds no checkpoint yet"));
}

}  // namespace
}  // namespace braid
