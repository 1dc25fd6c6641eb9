// What processes a launch makes, with the real supervisor and the real mpirun.
#include <gmock/gmock.h>
#include <signal.h>

#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "base/clock.h"
#include "control/launch/launcher.h"
#include "control/run_status.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"
#include "tests/base/scratch_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace launch_processes_test {

using testing::HasSubstr;
using testing::Not;

class LaunchProcessesTest : public ControlFixture {
 protected:
  void SetUp() override {
    if (!FindProgram("mpirun")) GTEST_SKIP() << "Open MPI is not installed";
  }
  void TearDown() override {
    if (run_) (void)RecordStopRequest(*run_, UnixTime());
    EXPECT_TRUE(Eventually([&] { return !run_ || !HasLiveProcess(*run_, UnixTime()); }));
  }

  LauncherPrograms Programs() const {
    return {.mpirun = "mpirun",
            .trainer = BRAID_FAKE_TRAINER,
            .supervisor = BRAID_SUPERVISOR,
            .remote_agent = BRAID_HOST_AGENT};
  }
  RunDirectory Launch(v1::RunSpec spec) {
    run_.emplace(root_ / "run-000001");
    const absl::StatusOr<v1::RunSpec> resolved = ResolveRunSpec(spec);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_TRUE(run_->WriteSpec(*resolved).ok());
    const absl::Status started = StartRun(Programs(), *run_);
    EXPECT_TRUE(started.ok()) << started;
    return *run_;
  }
  v1::RunSpec TwoRanks(const std::string& name) {
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(2);
    return spec;
  }
  v1::Run Describe() const {
    RunRecord record;
    record.id = "run-000001";
    record.run_dir = run_->root();
    record.created = UnixTime();
    return DescribeRun(record, UnixTime());
  }
  bool Reaches(v1::RunState state) {
    return Eventually([&] { return Describe().state() == state; });
  }
  std::string Story() const {
    return GetFile(run_->root() / "supervisor.log") + GetFile(run_->log());
  }

  std::optional<RunDirectory> run_;
};

TEST_F(LaunchProcessesTest, LocalRanksRunAndEnd) {
  Launch(TwoRanks("quick"));
  EXPECT_TRUE(Reaches(v1::RUN_SUCCEEDED)) << Story();
  EXPECT_EQ(Describe().heartbeats_size(), 2);
}

class HostfileProcessesTest : public LaunchProcessesTest {
 protected:
  // The agent records its calls there.
  HostfileProcessesTest() { setenv("TMPDIR", root_.c_str(), 1); }
  ~HostfileProcessesTest() override { unsetenv("TMPDIR"); }
};

// Two hosts that are UTS namespaces of this machine.
TEST_F(HostfileProcessesTest, RanksRunOnTheirHosts) {
  if (geteuid() != 0) GTEST_SKIP() << "a host of another name needs root";
  v1::RunSpec spec = Spec("quick");
  spec.mutable_launch()->add_hosts()->set_host("node-a");
  spec.mutable_launch()->add_hosts()->set_host("node-b.example");
  const RunDirectory run = Launch(spec);
  EXPECT_TRUE(Reaches(v1::RUN_SUCCEEDED)) << Story();
  EXPECT_EQ(GetFile(run.root() / "hostfile"), "node-a slots=1\nnode-b.example slots=1\n");
  EXPECT_EQ(run.ReadHeartbeats().size(), 2u);
  for (const char* host : {"node-a", "node-b.example"}) {
    // The daemon of Open MPI 4 or 5.
    EXPECT_THAT(GetFile(root_ / (std::string("host_agent.") + host)),
                ::testing::AnyOf(HasSubstr("orted"), HasSubstr("prted")))
        << host;
  }
}

std::string EnvironmentOf(int64_t pid) {
  return GetFile("/proc/" + std::to_string(pid) + "/environ");
}

TEST_F(LaunchProcessesTest, SecretOfTheServiceReachesNoProcessAndNoFile) {
  constexpr char kCanary[] = "canary-5d0c7f1a";
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "BRAID_TOKEN", "BRAID_TOKEN_FILE", "SLURM_JWT",
                           "SOME_VARIABLE", "OMP_API_KEY"}) {
    setenv(name, kCanary, 1);
  }
  setenv("OMP_STACKSIZE", "passed-on", 1);
  const RunDirectory run = Launch(TwoRanks("endless"));
  ASSERT_TRUE(Eventually([&] { return RankProcesses(run).size() == 2; })) << Story();
  std::vector<int64_t> processes = RankProcesses(run);
  processes.push_back(ReadProcessRecord(run.process())->identity.pid);
  processes.push_back(ReadProcessRecord(run.attempt())->identity.pid);
  for (const int64_t pid : processes) {
    EXPECT_THAT(EnvironmentOf(pid), Not(HasSubstr(kCanary))) << pid;
    EXPECT_THAT(EnvironmentOf(pid), HasSubstr("passed-on")) << pid;
    for (const std::string& argument : ProcessArguments(pid)) {
      EXPECT_THAT(argument, Not(HasSubstr(kCanary)));
    }
  }
  for (const auto& file : std::filesystem::recursive_directory_iterator(run.root())) {
    if (file.is_regular_file()) {
      EXPECT_THAT(GetFile(file.path()), Not(HasSubstr(kCanary))) << file.path();
    }
  }
}

// Programs that this test, run again with `filter` under strace, executes; empty where it cannot
// be traced.
std::vector<std::string> ExecutedBy(const std::string& filter, const ScratchDirectory& scratch) {
  // A file for each process: in a common one, strace divides calls that overlap.
  const std::filesystem::path traces = scratch / "traces";
  std::filesystem::create_directory(traces);
  const auto result = RunSubprocess(
      {.arguments = {"strace", "-ff", "-qq", "-e", "trace=execve", "-e", "signal=none", "-o",
                     (traces / "of").string(),
                     std::filesystem::read_symlink("/proc/self/exe").string(),
                     "--gtest_filter=" + filter},
       .environment = TrainerEnvironment()},
      [](std::string_view) { return true; }, [] { return false; });
  std::vector<std::string> programs;
  if (!result.ok() || result->exit_code != 0) return programs;
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(traces)) {
    all += GetFile(entry.path().string());
  }
  std::istringstream lines(all);
  const std::string call = "execve(\"";
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find(call);
    if (begin == std::string::npos || !absl::EndsWith(line, " = 0")) continue;
    const size_t path = begin + call.size();
    programs.push_back(line.substr(path, line.find('"', path) - path));
  }
  return programs;
}

void ExpectNoShell(const std::vector<std::string>& programs) {
  std::set<std::string> names;
  for (const std::string& program : programs) {
    names.insert(std::filesystem::path(program).filename());
  }
  for (const char* shell : {"sh", "bash", "dash", "ash", "zsh", "ksh", "csh", "tcsh", "env"}) {
    EXPECT_FALSE(names.contains(shell)) << testing::PrintToString(programs);
  }
  EXPECT_TRUE(names.contains("fake_trainer")) << testing::PrintToString(programs);
  EXPECT_TRUE(names.contains("braid-supervisor")) << testing::PrintToString(programs);
}

TEST(NoShellTest, LocalLaunchExecutesNoShell) {
  if (!FindProgram("strace") || !FindProgram("mpirun")) GTEST_SKIP() << "no strace or no mpirun";
  const ScratchDirectory scratch;
  const auto programs = ExecutedBy("LaunchProcessesTest.LocalRanksRunAndEnd", scratch);
  if (programs.empty()) GTEST_SKIP() << "processes cannot be traced here";
  ExpectNoShell(programs);
}

// What Open MPI gives the agent is a line for the remote shell; ours executes it without one.
TEST(NoShellTest, LaunchOnHostsExecutesNoShellHere) {
  if (!FindProgram("strace") || !FindProgram("mpirun")) GTEST_SKIP() << "no strace or no mpirun";
  if (geteuid() != 0) GTEST_SKIP() << "a host of another name needs root";
  const ScratchDirectory scratch;
  const auto programs = ExecutedBy("HostfileProcessesTest.RanksRunOnTheirHosts", scratch);
  if (programs.empty()) GTEST_SKIP() << "processes cannot be traced here";
  ExpectNoShell(programs);
}

}  // namespace launch_processes_test
}  // namespace braid
