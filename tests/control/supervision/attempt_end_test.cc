#include "control/supervision/attempt_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/utf8.h"
#include "control/supervision/log_tail.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace attempt_end_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A supervisor that re-attached does not get the exit code of mpirun, and the log holds little but
// the settings that the trainer prints when it starts.
TEST(AttemptEndTest, CauseIsShortAndHasNoSettings) {
  const ScratchDirectory scratch;
  const RunDirectory run(scratch.path());
  std::string log = AttemptMarker("n") + "resolved configuration:\n";
  for (int line = 0; line < 60; ++line) absl::StrAppend(&log, "  setting_", line, ": 1\n");
  log += "BLAS kernels: Zen\n";
  ASSERT_TRUE(WriteFileAtomically(run.log(), log).ok());
  const std::string killed = DescribeEnd(run, {}, {}, {}, std::nullopt).cause;
  EXPECT_THAT(killed, Not(HasSubstr("setting_")));
  EXPECT_THAT(killed, HasSubstr("has no error message"));
  EXPECT_LT(killed.size(), 300u) << killed;

  for (int line = 0; line < 60; ++line) absl::StrAppend(&log, "frame ", line, "\n");
  ASSERT_TRUE(WriteFileAtomically(run.log(), log + "Segmentation fault\n").ok());
  const std::string crashed = DescribeEnd(run, {}, {}, {}, 139).cause;
  EXPECT_THAT(crashed, EndsWith("trainer.log:\nframe 56\nframe 57\nframe 58\nframe 59\n"
                                "Segmentation fault"));
  EXPECT_LT(crashed.size(), 300u) << crashed;
}

// A message that is not UTF-8 would make the answers about this run, and the list of all runs,
// unreadable for clients.
TEST(AttemptEndTest, ExcerptOfALogIsUtf8) {
  EXPECT_EQ(LogExcerpt("cannot open caf\xE9\n"), "cannot open caf\xEF\xBF\xBD");
  EXPECT_TRUE(IsValidUtf8(LogExcerpt("x" + std::string(1000, '\xC3') + "\n")));
  std::string umlauts;
  for (int i = 0; i < 300; ++i) umlauts += "\xC3\xA4";
  EXPECT_TRUE(IsValidUtf8(LogExcerpt(umlauts + "!"))) << "400 bytes begin within a character";
}

v1::RunIncident Incident(int attempt, const std::string& cause) {
  v1::RunIncident incident;
  incident.set_attempt(attempt);
  incident.set_step(6);
  incident.set_cause(cause);
  return incident;
}

TEST(DescribeFailuresTest, PrintsACauseOfSeveralAttemptsOnce) {
  google::protobuf::RepeatedPtrField<v1::RunIncident> earlier;
  *earlier.Add() = Incident(1, "cannot write step-5.3584b25e.tmp/rank-00001: No space left\nlog");
  *earlier.Add() = Incident(2, "loss is NaN at step 3");
  *earlier.Add() = Incident(3, "cannot write step-5.d4c001b2.tmp/rank-00002: No space left");
  const v1::RunIncident last =
      Incident(4, "cannot write step-5.0414e264.tmp/rank-00001: No space left");
  EXPECT_EQ(DescribeFailures(earlier, last, 3),
            "cannot write step-5.0414e264.tmp/rank-00001: No space left\n"
            "giving up: 3 restarts from step 0 without a new checkpoint; attempts 1, 3 ended in "
            "the same way:\n  attempt 2, step 6: loss is NaN at step 3");
  EXPECT_EQ(DescribeFailures({}, last, 3), last.cause());
  earlier.DeleteSubrange(1, 1);
  EXPECT_EQ(DescribeFailures(earlier, last, 2),
            last.cause() + "\ngiving up: 2 restarts failed in the same way");
}

}  // namespace attempt_end_test
}  // namespace braid
