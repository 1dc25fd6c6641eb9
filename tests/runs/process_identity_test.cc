#include "runs/process_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <thread>

namespace braid {
namespace process_identity_test {

TEST(ProcessIdentityTest, OwnProcessIsAlive) {
  const ProcessIdentity self = IdentifyProcess(getpid()).value();
  EXPECT_GT(self.start_time, 0u);
  EXPECT_TRUE(IsAlive(self));
}

TEST(ProcessIdentityTest, SamePidWithAnotherStartTimeIsNotAlive) {
  ProcessIdentity other = IdentifyProcess(getpid()).value();
  ++other.start_time;
  EXPECT_FALSE(IsAlive(other));
}

TEST(ProcessIdentityTest, SamePidOfAnotherBootOrContainerIsNotLocal) {
  ProcessIdentity other = IdentifyProcess(getpid()).value();
  other.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_FALSE(IsLocal(other));
  EXPECT_FALSE(IsAlive(other));
  other = IdentifyProcess(getpid()).value();
  other.pid_namespace = "pid:[1]";
  EXPECT_FALSE(IsAlive(other));
}

TEST(ProcessIdentityTest, ZombieIsDead) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  const ProcessIdentity child = IdentifyProcess(pid).value();
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, pid, &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(child));
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(absl::IsNotFound(IdentifyProcess(pid).status()));
}

TEST(ProcessIdentityTest, RecordSurvivesTheFile) {
  const std::string path = testing::TempDir() + "/process-" + std::to_string(getpid()) + ".json";
  const ProcessRecord record{
      .identity = IdentifyProcess(getpid()).value(), .nonce = "abc", .launched_at = 1700000000.25};
  ASSERT_TRUE(WriteProcessRecord(path, record).ok());
  const ProcessRecord read = ReadProcessRecord(path).value();
  EXPECT_TRUE(IsAlive(read.identity));
  EXPECT_EQ(read.nonce, "abc");
  EXPECT_EQ(read.launched_at, record.launched_at);
  std::ofstream(path) << "{\"pid\":";
  EXPECT_TRUE(absl::IsDataLoss(ReadProcessRecord(path).status()));
}

TEST(ProcessIdentityTest, FindsOwnProgramAmongAll) {
  EXPECT_THAT(ProcessIds(), testing::Contains(getpid()));
  EXPECT_THAT(ProcessArguments(getpid()).at(0), testing::HasSubstr("runs_tests"));
}

double LongestRunQueueSeconds(int64_t pid) {
  double longest = 0;
  for (const auto& [thread, seconds] : RunQueueSeconds(pid)) longest = std::max(longest, seconds);
  return longest;
}

// Forks a process that spins, on one processor with the others that this function has forked.
pid_t ForkSpinning() {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  sched_setaffinity(0, sizeof(one), &one);
  for (volatile bool endless = true; endless;) {
  }
  _exit(0);
}

TEST(ProcessIdentityTest, RunQueueSecondsGrowOnlyWithoutAProcessor) {
  if (RunQueueSeconds(getpid()).empty()) GTEST_SKIP() << "the kernel does not count them";
  const pid_t first = ForkSpinning(), second = ForkSpinning();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (LongestRunQueueSeconds(first) < 0.1 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(LongestRunQueueSeconds(first), 0.1) << "it shares its processor";
  kill(first, SIGSTOP);
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(first), &stopped, WSTOPPED | WNOWAIT), 0);
  const double before = LongestRunQueueSeconds(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(LongestRunQueueSeconds(first), before) << "a stopped process does not wait for one";
  for (const pid_t pid : {first, second}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_TRUE(RunQueueSeconds(first).empty());
}

}  // namespace process_identity_test
}  // namespace braid
