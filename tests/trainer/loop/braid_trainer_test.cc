// The braid-trainer program, alone and under mpirun.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.pb.h"
#include "formats/atomic_file.h"
#include "formats/tokenizer.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/trainer/loop/tiny_run.h"
#include "trainer/generation.h"
#include "trainer/splitmix.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A child process with its output in files.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) : directory_(NewDirectory("program")) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (directory_ / "out").c_str(), flags, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, (directory_ / "err").c_str(), flags, 0644);
    const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0) << argv[0];
  }

  pid_t pid() const { return pid_; }
  // Exit code, or 128 + signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return *ReadFile(directory_ / "out"); }
  std::string err() const { return *ReadFile(directory_ / "err"); }

 private:
  fs::path directory_;
  pid_t pid_ = 0;
};

Program Trainer(const std::string& command, const fs::path& path) {
  return Program({BRAID_TRAINER, command, path.string()});
}

Program MpiTrainer(int ranks, const fs::path& run) {
  return Program({BRAID_MPIRUN, "-n", std::to_string(ranks), "--allow-run-as-root",
                  "--oversubscribe", "--bind-to", "none", BRAID_TRAINER, "train", run.string()});
}

// Waits until the run has done `step` steps, with a deadline.
bool WaitForStep(const RunDirectory& run, int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto metrics = run.ReadNewestMetrics();
    if (metrics.has_value() && metrics->step() >= step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

class BraidTrainerTest : public testing::Test {
 protected:
  BraidTrainerTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  RunDirectory NewRun(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    return run;
  }

  // Checkpoints so often that a kill has a fair chance to meet one being written.
  v1::RunSpec TwoRankSpec() {
    v1::RunSpec spec = TinySpec(dataset_, 120);
    spec.set_world_size(2);
    spec.mutable_checkpoint()->set_every_steps(7);
    spec.mutable_checkpoint()->set_keep_last(1);
    return spec;
  }

  // TwoRankSpec trained without disturbance; once for all tests.
  const RunDirectory& UndisturbedRun() {
    static const RunDirectory whole = [this] {
      const RunDirectory run = NewRun(TwoRankSpec());
      Program program = MpiTrainer(2, run.root());
      EXPECT_EQ(program.Wait(), 0) << program.err();
      return run;
    }();
    return whole;
  }

  void ExpectSameBitsAfterResume(const RunDirectory& run) {
    Program resumed = MpiTrainer(2, run.root());
    ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
    EXPECT_EQ(LossLines(run), LossLines(UndisturbedRun()));
    EXPECT_EQ(NewestWeights(run), NewestWeights(UndisturbedRun()));
  }

  static pid_t PidOf(const RunDirectory& run, int rank) {
    return static_cast<pid_t>(run.ReadHeartbeats().at(rank).pid());
  }

  // A tenth of the kill points asked for in the environment.
  static uint64_t NumKills() {
    const char* text = std::getenv("BRAID_KILL_POINTS");
    return text == nullptr ? 2 : std::strtoull(text, nullptr, 10) / 10;
  }

  fs::path Request(const google::protobuf::Message& request) {
    const fs::path path = NewDirectory("request") / "request.textproto";
    EXPECT_TRUE(WriteFileAtomically(path, request.DebugString()).ok());
    return path;
  }

  fs::path dataset_;
};

TEST_F(BraidTrainerTest, MpiRanksGiveTheCurveOfOneRank) {
  v1::RunSpec spec = TinySpec(dataset_, 50);
  const RunDirectory one = NewRun(spec);
  Program alone = Trainer("train", one.root());
  ASSERT_EQ(alone.Wait(), 0) << alone.err();
  const auto expected = *one.ReadMetrics(0);
  ASSERT_EQ(expected.size(), 50u);
  for (const int ranks : {2, 4}) {
    spec.set_world_size(ranks);
    spec.set_optimizer_sharding(ranks == 4 ? v1::REPLICATED : v1::ZERO_1);
    const RunDirectory run = NewRun(spec);
    Program together = MpiTrainer(ranks, run.root());
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
TEST_F(BraidTrainerTest, MpiRanksGiveTheSameBitsWheneverGradientsAreSummed) {
  v1::RunSpec spec = TinySpec(dataset_, 16);
  spec.set_world_size(3);
  spec.mutable_reduction()->set_bucket_bytes(4096);
  const RunDirectory overlapped = NewRun(spec);
  spec.mutable_reduction()->set_after_backward(true);
  const RunDirectory after = NewRun(spec);
  for (const RunDirectory& run : {overlapped, after}) {
    Program program = MpiTrainer(3, run.root());
    ASSERT_EQ(program.Wait(), 0) << program.err();
  }
  EXPECT_EQ(LossLines(overlapped), LossLines(after));
  EXPECT_EQ(NewestWeights(overlapped), NewestWeights(after));
}

// The second run gets SIGTERM, saves, and continues to the same bits.
TEST_F(BraidTrainerTest, StopsOnSigtermAndResumesToTheSameBits) {
  v1::RunSpec spec = TinySpec(dataset_, 400);
  const RunDirectory whole = NewRun(spec), run = NewRun(spec);
  Program undisturbed = Trainer("train", whole.root());
  Program stopped = Trainer("train", run.root());
  ASSERT_TRUE(WaitForStep(run, 20));
  kill(stopped.pid(), SIGTERM);
  ASSERT_EQ(stopped.Wait(), kExitStopped) << stopped.err();
  const auto record = run.ReadExit();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->outcome, kStopped);
  EXPECT_LT(record->step, 400);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), record->step);
  Program resumed = Trainer("train", run.root());
  ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
  ASSERT_EQ(undisturbed.Wait(), 0) << undisturbed.err();
  EXPECT_THAT(resumed.out(), HasSubstr(absl::StrCat("resuming after step ", record->step)));
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
  EXPECT_EQ(run.ReadExit()->outcome, kSucceeded);
}

// mpirun passes SIGUSR1 on to the ranks.
TEST_F(BraidTrainerTest, MpiRanksStopTogether) {
  v1::RunSpec spec = TinySpec(dataset_, 100000);
  spec.set_world_size(2);
  const RunDirectory run = NewRun(spec);
  Program program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 3));
  kill(program.pid(), SIGUSR1);
  EXPECT_EQ(program.Wait(), kExitStopped) << program.err();
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_GT(NewestWeights(run).size(), 1000u);
}

// SIGTERM to one rank of several, as a scheduler that knows the processes sends it.
TEST_F(BraidTrainerTest, SigtermToARankStopsAllWithin30Seconds) {
  const v1::RunSpec spec = TwoRankSpec();
  const RunDirectory run = NewRun(spec);
  Program program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 10));
  const auto begin = std::chrono::steady_clock::now();
  kill(PidOf(run, 1), SIGTERM);
  EXPECT_EQ(program.Wait(), kExitStopped) << program.err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), run.ReadExit()->step);
  ExpectSameBitsAfterResume(run);
}

// mpirun itself gives the ranks a second, and returns 1 in any case.
TEST_F(BraidTrainerTest, SigtermToMpirunLosesNothing) {
  const v1::RunSpec spec = TwoRankSpec();
  const RunDirectory run = NewRun(spec);
  Program program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 10));
  kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.Wait(), kExitFailed);
  ExpectSameBitsAfterResume(run);
}

TEST_F(BraidTrainerTest, KilledMpiRanksResumeToTheSameBits) {
  const v1::RunSpec spec = TwoRankSpec();
  for (uint64_t i = 0; i < NumKills(); ++i) {
    const RunDirectory run = NewRun(spec);
    const int64_t step = 1 + static_cast<int64_t>(Mix64(1, i) % (spec.num_steps() / 2));
    Program program = MpiTrainer(2, run.root());
    ASSERT_TRUE(WaitForStep(run, step)) << program.err();
    kill(PidOf(run, static_cast<int>(i % 2)), SIGKILL);
    EXPECT_NE(program.Wait(), 0);
    ExpectSameBitsAfterResume(run);
    if (HasFailure()) return;
  }
}

TEST_F(BraidTrainerTest, FailuresEndAllRanksWithTheCauseOnDisk) {
  v1::RunSpec spec = TinySpec(dataset_, 50);
  spec.set_world_size(2);
  spec.mutable_optimizer()->set_learning_rate(1e38);
  const RunDirectory run = NewRun(spec);
  Program program = MpiTrainer(2, run.root());
  EXPECT_EQ(program.Wait(), kExitFailed);
  EXPECT_THAT(program.err(), HasSubstr("is not finite on instances"));
  const auto record = run.ReadExit();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->outcome, kFailed);
  EXPECT_THAT(record->error, HasSubstr("is not finite on instances"));
}

TEST_F(BraidTrainerTest, BadUseAndBadInputAreClear) {
  Program nothing = Program({BRAID_TRAINER});
  EXPECT_EQ(nothing.Wait(), kExitUsage);
  Program no_run = Trainer("train", "/nowhere");
  EXPECT_EQ(no_run.Wait(), kExitFailed);
  EXPECT_THAT(no_run.err(), HasSubstr("/nowhere is not a run directory"));
  v1::EvaluateRequest request;
  request.set_model(dataset_.string());
  Program no_model = Trainer("evaluate", Request(request));
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
    Program program = Trainer("generate", Request(request));
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

  std::string tokenizer_;
  int32_t vocab_size_ = 0;
};

TEST_F(GenerationTest, TrainsScoresAndSamples) {
  const RunDirectory run = NewRun(TinySpec(dataset_, 20));
  Program train = Trainer("train", run.root());
  ASSERT_EQ(train.Wait(), 0) << train.err();

  v1::EvaluateRequest evaluate;
  evaluate.set_model(run.root().string());
  Program scored = Trainer("evaluate", Request(evaluate));
  ASSERT_EQ(scored.Wait(), 0) << scored.err();
  EXPECT_THAT(scored.out(), HasSubstr("\"loss_after_first_segment\""));

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

}  // namespace
}  // namespace braid
