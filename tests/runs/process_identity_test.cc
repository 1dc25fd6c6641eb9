#include "runs/process_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

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

}  // namespace process_identity_test
}  // namespace braid
