#include "control/supervision/child_program.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace braid {
namespace child_program_test {

// Makes close_range() fail with ENOSYS from now on, in this process and its children, as on kernels
// before 5.9. Returns whether it does.
bool ForbidCloseRange() {
  std::array<sock_filter, 4> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  // Required of processes without privileges.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  return syscall(SYS_close_range, ~0U, ~0U, 0U) < 0 && errno == ENOSYS;
}

bool Exists(pid_t pid) { return std::filesystem::exists(absl::StrCat("/proc/", pid)); }

TEST(ChildProgramTest, RunsNothingWhenDestroyedBeforeExecute) {
  const std::filesystem::path trace =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("braid-child-", getpid());
  pid_t pid = 0;
  {
    const absl::StatusOr<ChildProgram> child = ChildProgram::Fork(
        {.program = "/bin/touch", .arguments = {"touch", trace.string()}, .environment = {}});
    ASSERT_TRUE(child.ok()) << child.status();
    pid = child->pid();
    EXPECT_TRUE(Exists(pid));
  }
  EXPECT_FALSE(Exists(pid));
  EXPECT_FALSE(std::filesystem::exists(trace));
}

// The second has a copy of the first one's gate, and would keep it open.
TEST(ChildProgramTest, ExitsWhileALaterChildIsStillWaiting) {
  const ChildProgramSpec spec = {.program = "/bin/true", .arguments = {"true"}, .environment = {}};
  std::optional<absl::StatusOr<ChildProgram>> first = ChildProgram::Fork(spec);
  const absl::StatusOr<ChildProgram> second = ChildProgram::Fork(spec);
  ASSERT_TRUE((*first).ok() && second.ok());
  const pid_t pid = (*first)->pid();
  first.reset();
  EXPECT_FALSE(Exists(pid));
}

// Two children that are forked at the same time would hold each other's gate open, and wait forever
// if this process died.
TEST(ChildProgramTest, HoldsNoDescriptorOfTheParentWhileItWaits) {
  const ChildProgramSpec spec = {.program = "/bin/true", .arguments = {"true"}, .environment = {}};
  const absl::StatusOr<ChildProgram> first = ChildProgram::Fork(spec);
  const absl::StatusOr<ChildProgram> second = ChildProgram::Fork(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  // The streams, and one end of each pipe of its own.
  const auto is_closed = [&] {
    int above_streams = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", second->pid(), "/fd"))) {
      if (std::stoi(entry.path().filename()) > 2) ++above_streams;
    }
    return above_streams == 2;
  };
  for (int i = 0; i < 1000 && !is_closed(); ++i) usleep(5000);
  EXPECT_TRUE(is_closed());
}

// The parent, a process of its own, is gone before it lets the child execute the program. The child
// inherits `alive` and holds it open until it exits, since it cannot close what it inherits.
TEST(ChildProgramTest, EndsWithItsParentWhereCloseRangeIsMissing) {
  constexpr int kNoFilter = 77;
  absl::StatusOr<Pipe> alive = Pipe::Open();
  ASSERT_TRUE(alive.ok()) << alive.status();
  const pid_t parent = fork();
  if (parent == 0) {
    if (!ForbidCloseRange()) _exit(kNoFilter);
    const absl::StatusOr<ChildProgram> child = ChildProgram::Fork(
        {.program = "/bin/true", .arguments = {"true"}, .environment = {}});
    const pid_t pid = child.ok() ? child->pid() : 0;
    _exit(write(alive->write_end(), &pid, sizeof(pid)) == sizeof(pid) && pid > 0 ? 0 : 1);
  }
  alive->CloseWriteEnd();
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilter) GTEST_SKIP() << "no filter of system calls here";
  ASSERT_EQ(WEXITSTATUS(status), 0);
  pid_t child = 0;
  ASSERT_EQ(read(alive->read_end(), &child, sizeof(child)), sizeof(child));
  pollfd closed = {alive->read_end(), POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, 30'000), 1) << "it waits for a parent that is gone";
  if (closed.revents == 0) kill(child, SIGKILL);
}

}  // namespace child_program_test
}  // namespace braid
