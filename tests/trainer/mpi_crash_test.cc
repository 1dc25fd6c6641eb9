// Kills or stops the ranks of the real program under mpirun. BRAID_KILL_POINTS in the environment
// is ten times the number of kills.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "base/splitmix.h"
#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/trainer_program.h"

namespace braid {
namespace mpi_crash_test {

uint64_t NumKills() {
  const char* text = std::getenv("BRAID_KILL_POINTS");
  return text == nullptr ? 2 : std::strtoull(text, nullptr, 10) / 10;
}

pid_t PidOf(const RunDirectory& run, int rank) {
  return static_cast<pid_t>(run.ReadHeartbeats().at(rank).pid());
}

class MpiCrashTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dataset_ = NewDirectory("data");
    WriteTinyDataset(dataset_);
    const RunDirectory whole = NewRun();
    TestProgram program = MpiTrainer(2, whole.root());
    EXPECT_EQ(program.Wait(), 0) << program.err();
    losses_ = LossLines(whole);
    weights_ = NewestWeights(whole);
  }

  // Checkpoints are frequent, so that a kill has a fair chance to hit one being written.
  static v1::RunSpec Spec() {
    v1::RunSpec spec = TinySpec(dataset_, 240);
    spec.set_world_size(2);
    spec.mutable_checkpoint()->set_every_steps(9);
    spec.mutable_checkpoint()->set_keep_last(1);
    return spec;
  }

  static RunDirectory NewRun() {
    RunDirectory run(NewDirectory("run"));
    EXPECT_TRUE(run.WriteSpec(Spec()).ok());
    return run;
  }

  static void ExpectSameBitsAfterResume(const RunDirectory& run) {
    TestProgram resumed = MpiTrainer(2, run.root());
    ASSERT_EQ(resumed.Wait(), 0) << resumed.err();
    EXPECT_EQ(LossLines(run), losses_);
    EXPECT_EQ(NewestWeights(run), weights_);
  }

  static inline std::filesystem::path dataset_;
  // Results of a run without faults.
  static inline std::string losses_, weights_;
};

// A scheduler that knows the processes may send SIGTERM to one of several ranks.
TEST_F(MpiCrashTest, SigtermToARankStopsAllWithin30Seconds) {
  const RunDirectory run = NewRun();
  TestProgram program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 2));
  const auto begin = std::chrono::steady_clock::now();
  kill(PidOf(run, 1), SIGTERM);
  EXPECT_EQ(program.Wait(), kExitStopped) << program.err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), run.ReadExit()->step);
  ExpectSameBitsAfterResume(run);
}

// mpirun gives the ranks one second, and returns 1 in any case.
TEST_F(MpiCrashTest, SigtermToMpirunLosesNothing) {
  const RunDirectory run = NewRun();
  TestProgram program = MpiTrainer(2, run.root());
  ASSERT_TRUE(WaitForStep(run, 2));
  ASSERT_EQ(kill(program.pid(), SIGTERM), 0);
  EXPECT_NE(program.Wait(), 0) << "it was not stopped";
  ExpectSameBitsAfterResume(run);
}

TEST_F(MpiCrashTest, KilledMpiRanksResumeToTheSameBits) {
  uint64_t num_killed = 0;
  for (uint64_t i = 0; i < NumKills(); ++i) {
    const RunDirectory run = NewRun();
    const int64_t step = 1 + static_cast<int64_t>(Mix64(1, i) % (Spec().num_steps() / 2));
    TestProgram program = MpiTrainer(2, run.root());
    ASSERT_TRUE(WaitForStep(run, step)) << program.err();
    kill(PidOf(run, static_cast<int>(i % 2)), SIGKILL);
    num_killed += program.Wait() != 0 ? 1 : 0;
    ExpectSameBitsAfterResume(run);
    if (HasFailure()) return;
  }
  EXPECT_GT(num_killed, 0u) << "every run ended before it was to be killed";
}

}  // namespace mpi_crash_test
}  // namespace braid
