// A real braidd with --stop-runs, as in a container: SIGTERM stops its runs with a checkpoint, and
// the next start resumes them from there. Trainer, mpirun and supervisor are real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "control/supervision/run_process.h"
#include "rpc/training_client.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"
#include "tests/program.h"
#include "tests/server/real_braidd.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace local_runs_test {

class LocalRunsTest : public testing::Test {
 protected:
  LocalRunsTest()
      : root_(NewDirectory("local-runs")),
        braidd_(BRAID_BIN_DIR "/braidd", root_,
                {"--services", "training", "--mpirun", BRAID_MPIRUN, "--stop-runs"}) {
    WriteTinyDataset(root_ / "data");
  }
  ~LocalRunsTest() override {
    braidd_.Kill();
    const RunDirectory run(braidd_.home() / "runs/run-000001");
    const auto supervisor = ReadProcessRecord(run.process());
    if (supervisor.ok() && IsAlive(supervisor->identity)) {
      kill(static_cast<pid_t>(supervisor->identity.pid), SIGKILL);
    }
    for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  // Launches a run that takes longer than the test.
  std::string Launch() {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = TinySpec(root_ / "data", /*num_steps=*/1000000);
    request.mutable_spec()->mutable_checkpoint()->set_every_steps(1000000);
    const auto run = TrainingClient(braidd_.Connect()).LaunchRun(request);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->id() : "";
  }

  v1::Run Describe(const std::string& id) {
    return TrainingClient(braidd_.Connect()).GetRun(id).value_or(v1::Run());
  }

  // Waits until the run has completed `step`, or has ended.
  bool Passes(const std::string& id, int64_t step) {
    v1::Run run;
    WaitUntil(
        [&] {
          run = Describe(id);
          return HasEnded(run.state()) ||
                 (run.state() == v1::RUN_RUNNING && run.latest().step() > step);
        },
        std::chrono::seconds(120));
    return run.state() == v1::RUN_RUNNING && run.latest().step() > step;
  }

  const std::filesystem::path root_;
  RealBraidd braidd_;
};

TEST_F(LocalRunsTest, StopWithACheckpointAndContinueAtTheNextStart) {
  ASSERT_TRUE(braidd_.Start());
  const std::string id = Launch();
  ASSERT_TRUE(Passes(id, 3)) << Describe(id).DebugString();
  EXPECT_EQ(braidd_.Terminate(), 0);

  const RunDirectory run(braidd_.home() / "runs" / id);
  // The supervisor ends right after it has recorded that the run has stopped.
  EXPECT_TRUE(
      WaitUntil([&] { return !IsAlive(ReadProcessRecord(run.process()).value().identity); }));
  EXPECT_TRUE(RankProcesses(run).empty());
  EXPECT_FALSE(std::filesystem::is_empty(run.root() / "checkpoints"));
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), id);

  ASSERT_TRUE(braidd_.Start());
  ASSERT_TRUE(
      WaitUntil([&] { return Describe(id).state() == v1::RUN_RUNNING; }, std::chrono::seconds(60)))
      << Describe(id).DebugString();
  const int64_t resumed_at = Describe(id).latest().step();
  EXPECT_GE(resumed_at, 4);
  EXPECT_TRUE(Passes(id, resumed_at + 3));
  EXPECT_EQ(Describe(id).incidents_size(), 0);
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), "");

  // A run that its user has stopped stays stopped.
  ASSERT_TRUE(TrainingClient(braidd_.Connect()).StopRun(id).ok());
  ASSERT_TRUE(WaitUntil([&] { return Describe(id).state() == v1::RUN_STOPPED; }));
  EXPECT_EQ(braidd_.Terminate(), 0);
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), "");
}

}  // namespace local_runs_test
}  // namespace braid
