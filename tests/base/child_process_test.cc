#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "base/clock.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace child_process_test {

class ChildProcessTest : public testing::Test {
 protected:
  // Starts a shell with `script`, whose output goes to the file "out".
  absl::StatusOr<ChildProcess> Start(const std::string& script, int input = -1) {
    const int out =
        open((scratch_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const absl::Cleanup close_it = [out] { close(out); };
    return ChildProcess::Start({.program = "/bin/sh",
                                .arguments = {"sh", "-c", script},
                                .environment = environment_,
                                .standard_input = input,
                                .standard_output = out});
  }
  std::string Output() const { return GetFile(scratch_ / "out"); }

  ScratchDirectory scratch_;
  std::optional<std::vector<std::string>> environment_;
};

TEST_F(ChildProcessTest, ReportsTheExitCode) {
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("exit 3"));
  ASSERT_OK_AND_ASSIGN(const ChildProcess::End end, child.Wait(nullptr));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.signal, std::nullopt);
  EXPECT_EQ(child.pid(), 0);
}

TEST_F(ChildProcessTest, ReportsTheSignal) {
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("kill -TERM $$"));
  ASSERT_OK_AND_ASSIGN(const ChildProcess::End end, child.Wait(nullptr));
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.exit_code, std::nullopt);
}

TEST_F(ChildProcessTest, ConnectsStreamsAndPassesOnlyTheGivenEnvironment) {
  PutFile(scratch_ / "in", "hello\n");
  const int input = open((scratch_ / "in").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(input, 0);
  const absl::Cleanup close_it = [input] { close(input); };
  environment_ = {"GREETED=world"};
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("read word; echo $word $GREETED $HOME", input));
  ASSERT_OK(child.Wait(nullptr));
  EXPECT_EQ(Output(), "hello world\n");
}

TEST_F(ChildProcessTest, InheritsNoOtherDescriptor) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(leaked, 3);
  const absl::Cleanup close_it = [leaked] { close(leaked); };
  ASSERT_OK_AND_ASSIGN(ChildProcess child,
                       Start("test ! -e /proc/$$/fd/" + std::to_string(leaked)));
  ASSERT_OK_AND_ASSIGN(const ChildProcess::End end, child.Wait(nullptr));
  EXPECT_EQ(end.exit_code, 0);
}

TEST_F(ChildProcessTest, RestoresIgnoredAndBlockedSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = signal(SIGUSR1, SIG_IGN);
  auto child = Start("kill -USR1 $$; exit 0");
  signal(SIGUSR1, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_OK(child);
  ASSERT_OK_AND_ASSIGN(const ChildProcess::End end, child->Wait(nullptr));
  EXPECT_EQ(end.signal, SIGUSR1);
}

TEST_F(ChildProcessTest, HasAProcessGroupOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("exec sleep 60"));
  EXPECT_EQ(getpgid(child.pid()), child.pid());
}

TEST_F(ChildProcessTest, AnErrorOfTheCallbackKillsIt) {
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("exec sleep 60"));
  const pid_t pid = child.pid();
  int calls = 0;
  const auto result = child.Wait(
      [&] { return ++calls < 3 ? absl::OkStatus() : absl::CancelledError("stop requested"); });
  EXPECT_FAILS(result, absl::StatusCode::kCancelled, "stop requested");
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(kill(pid, 0), -1) << "the process still exists";
}

TEST_F(ChildProcessTest, WaitForReturnsAtTheDeadline) {
  ASSERT_OK_AND_ASSIGN(ChildProcess child, Start("exec sleep 60"));
  const double start = SteadySeconds();
  EXPECT_FALSE(child.WaitFor(50));
  EXPECT_GE(SteadySeconds() - start, 0.045);
  EXPECT_EQ(child.Kill().signal, SIGKILL);
  EXPECT_TRUE(child.WaitFor(0));
}

TEST_F(ChildProcessTest, TheDestructorEndsIt) {
  pid_t pid = 0;
  {
    ASSERT_OK_AND_ASSIGN(const ChildProcess child, Start("exec sleep 60"));
    pid = child.pid();
    ASSERT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1) << "the process still exists";
}

TEST_F(ChildProcessTest, AMissingProgramIsAnError) {
  EXPECT_FAILS(ChildProcess::Start({.program = scratch_ / "missing", .arguments = {"missing"}}),
               absl::StatusCode::kNotFound, "missing");
}

}  // namespace child_process_test
}  // namespace braid
