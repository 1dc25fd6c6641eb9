// The real supervisor with a fake trainer, and what it records.
#ifndef BRAID_TESTS_CONTROL_SUPERVISION_SUPERVISOR_FIXTURE_H_
#define BRAID_TESTS_CONTROL_SUPERVISION_SUPERVISOR_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/run_status.h"
#include "control/supervision/child_program.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {

class SupervisorFixture : public ControlFixture {
 protected:
  ~SupervisorFixture() override {
    for (const pid_t pid : supervisors_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (int tries = 0; tries < 100 && !RankProcesses(run_).empty(); ++tries) {
      for (const int64_t pid : RankProcesses(run_)) kill(static_cast<pid_t>(pid), SIGKILL);
      poll(nullptr, 0, 10);
    }
  }

  // The name selects the behavior of the trainer; see fake_trainer.cc.
  void Launch(const std::string& name, int max_restarts = 2) {
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(1);
    spec.set_num_steps(10);
    spec.mutable_supervision()->set_hang_seconds(2);
    spec.mutable_supervision()->set_backoff_seconds(0.05);
    spec.mutable_supervision()->set_max_restarts(max_restarts);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
    const nlohmann::json launch = {{"arguments",
                                    {(root_ / "mpirun").string(), "-n", "1", BRAID_FAKE_TRAINER,
                                     "train", run_.root().string()}},
                                   {"variables", {{"PATH", "/usr/bin:/bin"}}}};
    Write(run_.launch(), launch.dump());
  }

  void LengthenPause(double seconds) {
    v1::RunSpec spec = run_.ReadSpec().value();
    spec.mutable_supervision()->set_backoff_seconds(seconds);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
  }
  static ProcessRecord DeadRecord() {
    ProcessRecord record{IdentifyProcess(getpid()).value(), "dead", UnixTime()};
    record.identity.start_time += 1;
    return record;
  }

  pid_t Start(std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {BRAID_SUPERVISOR};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(run_.root().string());
    auto child = ChildProgram::Fork({.program = arguments.front(),
                                     .arguments = arguments,
                                     .environment = TrainerEnvironment(),
                                     .new_session = true});
    EXPECT_TRUE(child.ok() && child->Execute().ok());
    supervisors_.push_back(child->pid());
    return child->pid();
  }

  // Returns the exit code; -1 when the process does not exit.
  int Wait(pid_t pid) {
    int status = 0;
    if (!Eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; })) return -1;
    std::erase(supervisors_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void Kill(pid_t pid) {
    kill(pid, SIGKILL);
    Wait(pid);
  }

  std::vector<v1::RunEvent> Events() { return ReadRunEvents(run_.events(), 0).value(); }
  std::vector<v1::RunState> States() {
    std::vector<v1::RunState> states;
    for (const v1::RunEvent& event : Events()) {
      if (states.empty() || states.back() != event.state()) states.push_back(event.state());
    }
    return states;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const v1::RunEvent& event : Events()) {
      if (event.has_metrics()) steps.push_back(event.metrics().step());
    }
    return steps;
  }
  int64_t NewestTold() {
    const std::vector<int64_t> steps = Steps();
    return steps.empty() ? 0 : steps.back();
  }
  // Expects each step once, in order, and event numbers without gaps.
  void ExpectGapless() {
    int64_t number = 0, step = 0;
    for (const v1::RunEvent& event : Events()) {
      EXPECT_EQ(event.number(), ++number);
      EXPECT_GT(event.time(), 0);
      if (event.has_metrics()) {
        EXPECT_EQ(event.metrics().step(), ++step);
      }
    }
  }
  v1::Run Describe() { return DescribeRun({"run-000001", run_.root(), UnixTime()}, UnixTime()); }
  bool Reaches(v1::RunState state) {
    return Eventually([&] { return Describe().state() == state; });
  }
  bool Trains(int64_t step) {
    return Eventually([&] { return Describe().latest().step() >= step; });
  }
  ProcessIdentity Mpirun() { return ReadProcessRecord(run_.attempt()).value().identity; }

  const RunDirectory run_{root_ / "run"};
  std::vector<pid_t> supervisors_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_SUPERVISION_SUPERVISOR_FIXTURE_H_
