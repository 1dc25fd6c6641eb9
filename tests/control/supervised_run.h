// A tiny run of the real braid-trainer under a real mpirun and braid-supervisor, for fault
// injection.
#ifndef BRAID_TESTS_CONTROL_SUPERVISED_RUN_H_
#define BRAID_TESTS_CONTROL_SUPERVISED_RUN_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/run_status.h"
#include "control/supervision/attempt_files.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/child_program.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "control/supervision/supervisor.h"
#include "runs/checkpoint_directory.h"
#include "runs/process_identity.h"
#include "tests/trainer/tiny_run.h"

namespace braid {

// The hang_seconds of the tests, and how long detection may take beyond it: the period of
// heartbeats and of reads, on a busy machine.
inline constexpr double kTestHangSeconds = 5;
inline constexpr double kDetectionMargin = 4;

class SupervisedRun : public testing::Test {
 protected:
  static constexpr int64_t kNumSteps = 300;

  ~SupervisedRun() override {
    if (supervisor_ > 0) {
      kill(supervisor_, SIGKILL);
      waitpid(supervisor_, nullptr, 0);
    }
    if (auto attempt = AttemptProcess::Find(run_)) (void)attempt->End(run_);
    for (const int64_t pid : RankProcesses(run_)) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  // Checkpoints are frequent, so that faults are likely to coincide with one.
  static v1::RunSpec Spec(int world_size) {
    v1::RunSpec spec = TinySpec(Dataset(), kNumSteps);
    spec.set_world_size(world_size);
    spec.mutable_checkpoint()->set_every_steps(15);
    spec.mutable_supervision()->set_hang_seconds(kTestHangSeconds);
    spec.mutable_supervision()->set_backoff_seconds(0.5);
    return spec;
  }

  static const std::filesystem::path& Dataset() {
    static const std::filesystem::path dataset = [] {
      const auto path = NewDirectory("data");
      WriteTinyDataset(path);
      return path;
    }();
    return dataset;
  }

  // The arguments of mpirun that come before the trainer's.
  void Prepare(const v1::RunSpec& spec, std::vector<std::string> mpirun_arguments) {
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
    std::vector<std::string> arguments = {BRAID_MPIRUN, "--bind-to", "none", "-x",
                                          std::string(kNonceVariable)};
    arguments.insert(arguments.end(), mpirun_arguments.begin(), mpirun_arguments.end());
    arguments.insert(arguments.end(), {"-n", std::to_string(spec.world_size()), BRAID_TRAINER,
                                       "train", run_.root().string()});
    const nlohmann::json launch = {{"arguments", arguments},
                                   {"variables",
                                    {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                     {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                                     {"OMP_NUM_THREADS", "1"},
                                     {"OPENBLAS_NUM_THREADS", "1"}}}};
    ASSERT_TRUE(WriteFileAtomically(run_.launch(), launch.dump()).ok());
  }

  // `wrapper` is put before the supervisor's own arguments.
  void Supervise(std::vector<std::string> wrapper = {}) {
    wrapper.insert(wrapper.end(), {BRAID_SUPERVISOR, run_.root().string()});
    auto child = ChildProgram::Fork({.program = wrapper.front(),
                                     .arguments = wrapper,
                                     .environment = TrainerEnvironment(),
                                     .new_session = true});
    ASSERT_TRUE(child.ok() && child->Execute().ok());
    supervisor_ = child->pid();
  }

  static bool Eventually(const std::function<bool()>& condition, int seconds = 60) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      poll(nullptr, 0, 5);
    }
    return true;
  }

  v1::Run Describe() const { return DescribeRun({"run", run_.root(), UnixTime()}, UnixTime()); }
  std::string Story() const {
    return Describe().DebugString() + ReadFile(run_.log()).value_or("no log");
  }

  // Waits until all ranks of attempt `number` report, `step` is complete, and there is a
  // checkpoint.
  bool AttemptReaches(int number, int64_t step) {
    return Eventually([&] {
      const v1::Run run = Describe();
      const auto attempt = ReadProcessRecord(run_.attempt());
      if (run.attempts() != number || !attempt.ok() || run.latest().step() < step) return false;
      for (const v1::Heartbeat& beat : run.heartbeats()) {
        if (beat.nonce() != attempt->nonce) return false;
      }
      if (NewestCheckpointStep(run_.checkpoints()) == 0) return false;
      return run.heartbeats_size() == run.spec().world_size() && run.state() == v1::RUN_RUNNING;
    });
  }

  // Injects a fault and waits for the resulting incident.
  v1::RunIncident IncidentAfter(const std::function<void()>& fault) {
    const int before = Describe().incidents_size();
    const double begin = UnixTime();
    fault();
    EXPECT_TRUE(Eventually([&] { return Describe().incidents_size() > before; })) << Story();
    const v1::Run run = Describe();
    if (run.incidents_size() <= before) return {};
    const v1::RunIncident incident = run.incidents(before);
    EXPECT_LT(incident.time() - begin, kTestHangSeconds + kDetectionMargin) << Story();
    std::cout << "detected after " << incident.time() - begin << " s: " << incident.cause()
              << std::endl;
    return incident;
  }

  // Returns loss lines and weights of an undisturbed run of the same spec.
  static std::pair<std::string, std::string> Undisturbed(int world_size) {
    const RunDirectory whole(NewDirectory("whole"));
    EXPECT_TRUE(whole.WriteSpec(Spec(world_size)).ok());
    // The same matrix kernels as the run itself: they decide the last digits.
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "OMP_NUM_THREADS=1",
                                            "OPENBLAS_NUM_THREADS=1",
                                            "OMPI_MCA_btl_vader_single_copy_mechanism=none"};
    for (const std::string& variable : TrainerEnvironment()) {
      const bool decides_kernels =
          variable.starts_with("OPENBLAS_") && !variable.starts_with("OPENBLAS_NUM_THREADS=");
      // Open MPI 5 does not start without a home directory.
      if (decides_kernels || variable.starts_with("HOME=")) {
        environment.push_back(variable);
      }
    }
    const auto result = RunSubprocess(
        {.arguments = {BRAID_MPIRUN, "--allow-run-as-root", "--bind-to", "none", "--oversubscribe",
                       "-n", std::to_string(world_size), BRAID_TRAINER, "train",
                       whole.root().string()},
         .environment = environment},
        [](std::string_view) { return true; }, [] { return false; });
    EXPECT_TRUE(result.ok() && result->exit_code == 0) << result->error_output;
    return {LossLines(whole), NewestWeights(whole)};
  }

  // Waits for the end and expects the bits of an undisturbed run.
  void ExpectSameBitsInTheEnd(int world_size) {
    int status = 0;
    ASSERT_TRUE(
        Eventually([&] { return waitpid(supervisor_, &status, WNOHANG) == supervisor_; }, 120))
        << Story();
    supervisor_ = 0;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitDone) << Story();
    EXPECT_EQ(Describe().state(), v1::RUN_SUCCEEDED);
    const auto [losses, weights] = Undisturbed(world_size);
    EXPECT_EQ(LossLines(run_), losses);
    EXPECT_TRUE(NewestWeights(run_) == weights);
  }

  const RunDirectory run_{NewDirectory("run")};
  pid_t supervisor_ = 0;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_SUPERVISED_RUN_H_
