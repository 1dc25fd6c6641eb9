#include "control/supervision/attempt_end.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"

namespace braid {
namespace attempt_end_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A supervisor that re-attached does not get the exit code of mpirun, and the log holds little but
// the settings that the trainer prints when it starts.
TEST(AttemptEndTest, CauseIsShortAndHasNoSettings) {
  const RunDirectory run(std::filesystem::path(testing::TempDir()) / "braid-attempt-end");
  std::string log = AttemptMarker("n") + "resolved configuration:\n";
  for (int line = 0; line < 60; ++line) absl::StrAppend(&log, "  setting_", line, ": 1\n");
  log += "BLAS kernels: Zen\n";
  std::filesystem::create_directories(run.root());
  ASSERT_TRUE(WriteFileAtomically(run.log(), log).ok());
  const std::string killed = DescribeEnd(run, {}, {}, {}, std::nullopt).cause;
  EXPECT_THAT(killed, Not(HasSubstr("setting_")));
  EXPECT_THAT(killed, HasSubstr("does not say why"));
  EXPECT_LT(killed.size(), 300u) << killed;

  for (int line = 0; line < 60; ++line) absl::StrAppend(&log, "frame ", line, "\n");
  ASSERT_TRUE(WriteFileAtomically(run.log(), log + "Segmentation fault\n").ok());
  const std::string crashed = DescribeEnd(run, {}, {}, {}, 139).cause;
  EXPECT_THAT(crashed, EndsWith("trainer.log:\nframe 56\nframe 57\nframe 58\nframe 59\n"
                                "Segmentation fault"));
  EXPECT_LT(crashed.size(), 300u) << crashed;
  std::filesystem::remove_all(run.root());
}

}  // namespace attempt_end_test
}  // namespace braid
