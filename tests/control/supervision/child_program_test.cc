#include "control/supervision/child_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace braid {
namespace child_program_test {

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

}  // namespace child_program_test
}  // namespace braid
