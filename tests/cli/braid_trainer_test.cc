// The braid-trainer program, alone and under mpirun.
#include <signal.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "formats/tokenizer.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "inference/generation.h"
#include "tests/runs/metrics_export/random_metrics.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/trainer_program.h"

namespace braid {
namespace braid_trainer_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BraidTrainerTest : public testing::Test {
 protected:
  BraidTrainerTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  RunDirectory NewRun(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    return run;
  }

  fs::path Request(const google::protobuf::Message& request) {
    const fs::path path = NewDirectory("request") / "request.textproto";
    EXPECT_TRUE(WriteFileAtomically(path, request.DebugString()).ok());
    return path;
  }

  fs::path dataset_;
};

TEST_F(BraidTrainerTest, MpiRanksReproduceTheLossesOfOneRank) {
  v1::RunSpec spec = TinySpec(dataset_, 50);
  const RunDirectory one = NewRun(spec);
  TestProgram alone = Trainer("train", one.root());
  ASSERT_EQ(alone.Wait(), 0) << alone.err();
  const auto expected = *one.ReadMetrics(0);
  ASSERT_EQ(expected.size(), 50u);
  for (const int ranks : {2, 4}) {
    spec.set_world_size(ranks);
    spec.set_optimizer_sharding(ranks == 4 ? v1::REPLICATED : v1::ZERO_1);
    const RunDirectory run = NewRun(spec);
    TestProgram together = MpiTrainer(ranks, run.root());
    ASSERT_EQ(together.Wait(), 0) << together.err();
    const auto got = *run.ReadMetrics(0);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss(), expected[i].loss(), 1e-5 * expected[i].loss());
    }
    EXPECT_EQ(run.ReadExit()->outcome, kSucceeded);
    EXPECT_EQ(run.ReadHeartbeats().size(), static_cast<size_t>(ranks));
    EXPECT_THAT(together.out(), HasSubstr("step 50/50"));
  }
}

// On three ranks one has two sequences, the others one.
TEST_F(BraidTrainerTest, ResultsAreBitIdenticalForEveryReductionSchedule) {
  v1::RunSpec spec = TinySpec(dataset_, 16);
  spec.set_world_size(3);
  spec.mutable_reduction()->set_bucket_bytes(4096);
  const RunDirectory overlapped = NewRun(spec);
  spec.mutable_reduction()->set_after_backward(true);
  const RunDirectory after = NewRun(spec);
  for (const RunDirectory& run : {overlapped, after}) {
    TestProgram program = MpiTrainer(3, run.root());
    ASSERT_EQ(program.Wait(), 0) << program.err();
  }
  EXPECT_EQ(LossLines(overlapped), LossLines(after));
  EXPECT_EQ(NewestWeights(overlapped), NewestWeights(after));
}

// The second run gets SIGTERM, saves, and continues to the same bits.
TEST_F(BraidTrainerTest, ResumeAfterSigtermIsBitIdentical) {
  v1::RunSpec spec = TinySpec(dataset_, 400);
  const RunDirectory whole = NewRun(spec), run = NewRun(spec);
  TestProgram undisturbed = Trainer("train", whole.root());
  TestProgram stopped = Trainer("train", run.root());
  ASSERT_TRUE(WaitForStep(run, 20));
  kill(stopped.pid(), SIGTERM);
  ASSERT_EQ(stopped.Wait(), kExitStopped) << stopped.err();
  const auto record = run.ReadExit();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->outcome, kStopped);
  EXPECT_LT(record->step, 400);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), record->step);
  TestProgram resumed = Trainer("train", run.root());
  ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
  ASSERT_EQ(undisturbed.Wait(), 0) << undisturbed.err();
  EXPECT_THAT(resumed.out(), HasSubstr(absl::StrCat("resuming after step ", record->step)));
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
  EXPECT_EQ(run.ReadExit()->outcome, kSucceeded);
}

// The steps after its checkpoint are trained, and written, twice.
TEST_F(BraidTrainerTest, TensorBoardShowsEachStepOnceAfterAKill) {
  v1::RunSpec spec = TinySpec(dataset_, 150);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.set_routing_every_steps(3);
  const RunDirectory run = NewRun(spec);
  TestProgram killed = Trainer("train", run.root());
  ASSERT_TRUE(WaitForStep(run, 50));
  kill(killed.pid(), SIGKILL);
  EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
  TestProgram resumed = Trainer("train", run.root());
  ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
  EXPECT_EQ(ReadWithoutUs("events", run.tensorboard(), run.metrics()), 0);
}

TEST_F(BraidTrainerTest, WithoutTensorBoardWritesNoEventFiles) {
  v1::RunSpec spec = TinySpec(dataset_, 2);
  spec.set_without_tensorboard(true);
  const RunDirectory run = NewRun(spec);
  TestProgram program = Trainer("train", run.root());
  ASSERT_EQ(program.Wait(), 0) << program.err();
  EXPECT_FALSE(std::filesystem::exists(run.tensorboard()));
}

// mpirun passes SIGUSR1 on to the ranks.
TEST_F(BraidTrainerTest, MpiRanksStopTogether) {
  v1::RunSpec spec = TinySpec(dataset_, 100000);
  spec.set_world_size(2);
  const RunDirectory run = NewRun(spec);
  TestProgram program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 3));
  kill(program.pid(), SIGUSR1);
  EXPECT_EQ(program.Wait(), kExitStopped) << program.err();
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_GT(NewestWeights(run).size(), 1000u);
}

TEST_F(BraidTrainerTest, FailureOfOneRankEndsAllAndRecordsTheCause) {
  v1::RunSpec spec = TinySpec(dataset_, 50);
  spec.set_world_size(2);
  spec.mutable_optimizer()->set_learning_rate(1e38);
  const RunDirectory run = NewRun(spec);
  TestProgram program = MpiTrainer(2, run.root());
  EXPECT_EQ(program.Wait(), kExitFailed);
  EXPECT_THAT(program.err(), HasSubstr("is not finite on instances"));
  const auto record = run.ReadExit();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->outcome, kFailed);
  EXPECT_THAT(record->error, HasSubstr("is not finite on instances"));
}

TEST_F(BraidTrainerTest, ReportsUsageErrorsAndInvalidInput) {
  TestProgram nothing = Trainer();
  EXPECT_EQ(nothing.Wait(), kExitUsage);
  TestProgram no_run = Trainer("train", "/nowhere");
  EXPECT_EQ(no_run.Wait(), kExitFailed);
  EXPECT_THAT(no_run.err(), HasSubstr("/nowhere is not a run directory"));
  v1::EvaluateRequest request;
  request.add_models(dataset_.string());
  TestProgram no_model = Trainer("evaluate", Request(request));
  EXPECT_EQ(no_model.Wait(), kExitNotFound);
  EXPECT_THAT(no_model.err(), HasSubstr("is not a model directory"));
}

// Real text, a real tokenizer: train, score, sample.
class GenerationTest : public BraidTrainerTest {
 protected:
  GenerationTest() {
    const std::string text = "the cat sat on the mat and the dog ran after the cat. ";
    TrainTokenizerOn(text);
    WriteTinyDataset(dataset_, {.vocab_size = vocab_size_});
    EXPECT_TRUE(WriteFileAtomically(dataset_ / "tokenizer.model", tokenizer_).ok());
    SealDataset(dataset_);
  }

  void TrainTokenizerOn(const std::string& text) {
    const fs::path path = NewDirectory("tokenizer") / "tokenizer.model";
    const std::vector<std::string> texts(20, text);
    const absl::Status status = TrainTokenizer(texts, {.vocab_size = 280}, path);
    ASSERT_TRUE(status.ok()) << status;
    tokenizer_ = *ReadFile(path);
    vocab_size_ = (*Tokenizer::Load(path))->vocab_size();
  }

  // The text of all events; the last one is done.
  static std::string Sample(const v1::GenerateRequest& request, int32_t* num_tokens = nullptr) {
    std::string text;
    v1::GenerateEvent last;
    const absl::Status status = Generate(request, [&](const v1::GenerateEvent& event) {
      text += event.text();
      last = event;
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(last.done());
    if (num_tokens != nullptr) *num_tokens = last.num_tokens();
    return text;
  }

  // The same from the program, whose lines must each be valid JSON.
  std::string SampleByProgram(const v1::GenerateRequest& request) {
    TestProgram program = Trainer("generate", Request(request));
    EXPECT_EQ(program.Wait(), 0) << program.err();
    std::string text, line;
    v1::GenerateEvent event;
    std::istringstream lines(program.out());
    while (std::getline(lines, line)) {
      event.Clear();
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &event).ok()) << line;
      text += event.text();
    }
    EXPECT_TRUE(event.done());
    return text;
  }

  // In both routings, with what could not be read.
  void ExpectScoresFiles(const fs::path& model) {
    const std::string text = "the dog sat on the cat\nand ran";
    const fs::path directory = NewDirectory("text");
    EXPECT_TRUE(WriteFileAtomically(directory / "good.txt", text).ok());
    EXPECT_TRUE(WriteFileAtomically(directory / "latin.txt", "caf\xe9").ok());
    v1::EvaluateRequest request;
    request.add_models(model.string());
    request.add_paths(directory.string());
    request.add_routings(v1::SEGMENT_ROUTING);
    request.add_routings(v1::PROMPT_ROUTING);
    TestProgram program = Trainer("evaluate", Request(request));
    ASSERT_EQ(program.Wait(), 0) << program.err();
    std::string line;
    v1::EvaluateEvent event;
    std::istringstream lines(program.out());
    while (std::getline(lines, line)) {
      event.Clear();
      ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &event).ok()) << line;
    }
    ASSERT_EQ(event.result().evaluations_size(), 2);
    EXPECT_EQ(event.result().evaluations(1).total().num_bytes(), static_cast<int64_t>(text.size()));
    ASSERT_EQ(event.result().rejected_size(), 1);
    EXPECT_THAT(event.result().rejected(0), HasSubstr("latin.txt, byte 0: invalid utf-8"));
  }

  std::string tokenizer_;
  int32_t vocab_size_ = 0;
};

TEST_F(GenerationTest, TrainsScoresAndSamples) {
  const RunDirectory run = NewRun(TinySpec(dataset_, 20));
  TestProgram train = Trainer("train", run.root());
  ASSERT_EQ(train.Wait(), 0) << train.err();

  v1::EvaluateRequest evaluate;
  evaluate.add_models(run.root().string());
  TestProgram scored = Trainer("evaluate", Request(evaluate));
  ASSERT_EQ(scored.Wait(), 0) << scored.err();
  EXPECT_THAT(scored.out(), HasSubstr("\"loss_after_first_segment\""));
  ExpectScoresFiles(run.root());

  v1::AnalyzeRoutingRequest analyze;
  analyze.set_model(run.root().string());
  TestProgram analyzed = Trainer("analyze-routing", Request(analyze));
  ASSERT_EQ(analyzed.Wait(), 0) << analyzed.err();
  EXPECT_THAT(analyzed.out(), HasSubstr("\"effective_experts\""));
  EXPECT_THAT(analyzed.out(), HasSubstr("\"utilization\":[{\"step\":\"10\""));

  v1::GenerateRequest request;
  request.set_model(run.root().string());
  request.set_prompt("the cat");
  request.set_max_tokens(10);
  request.set_temperature(1);
  request.set_top_p(0.9);
  request.set_num_threads(1);
  int32_t num_tokens = 0;
  const std::string text = Sample(request, &num_tokens);
  EXPECT_LE(num_tokens, 10);
  EXPECT_EQ(Sample(request), text);
  EXPECT_FALSE(SampleByProgram(request).empty());
  request.set_seed(3);
  EXPECT_NE(Sample(request), text);
  request.set_routing(v1::SEGMENT_ROUTING);
  Sample(request);
  // The context is 32 tokens: generation ends when it is full.
  request.set_max_tokens(1000);
  Sample(request, &num_tokens);
  EXPECT_LE(num_tokens, 32);
  request.set_prompt(std::string(400, 'x'));
  const absl::Status too_long = Generate(request, [](const v1::GenerateEvent&) {});
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.message()),
              HasSubstr("expected at most 32 (the model's sequence_length)"));
}

}  // namespace braid_trainer_test
}  // namespace braid
