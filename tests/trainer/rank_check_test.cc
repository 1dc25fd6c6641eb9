#include "trainer/rank_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"

namespace braid {
namespace rank_check_test {

TEST(RankCheckTest, FindsEachOpenMpRuntimeOnce) {
  const std::string maps =
      "7f00-7f01 r-xp 00000000 fe:00 1   /usr/lib/gcc/libgomp.so.1.0.0\n"
      "7f01-7f02 r--p 00000000 fe:00 1   /usr/lib/gcc/libgomp.so.1.0.0\n"
      "7f02-7f03 r--p 00000000 00:00 0 \n"
      "7f03-7f04 r-xp 00000000 fe:00 2   /opt/torch/libiomp5.so\n"
      "7f04-7f05 r-xp 00000000 fe:00 3   /opt/libomp-notes/libc.so.6\n";
  EXPECT_EQ(OpenMpRuntimes(maps),
            (std::vector<std::string>{"/opt/torch/libiomp5.so", "/usr/lib/gcc/libgomp.so.1.0.0"}));
}

TEST(RankCheckTest, RanksOfOneMachineSeeTheSameClockAndEachOthersFiles) {
  const ScratchDirectory shared;
  const auto results = RunThreadedRanks(3, [&](Communicator& ranks) -> absl::Status {
    const absl::StatusOr<RankFindings> found = CheckRank(ranks, shared.path());
    if (!found.ok()) return found.status();
    EXPECT_EQ(found->rank, ranks.rank());
    EXPECT_EQ(found->world_size, 3);
    EXPECT_GT(found->allowed_cores, 0);
    EXPECT_LT(std::abs(found->clock_offset_seconds), 0.5);
    EXPECT_GE(found->visible_after_seconds, 0);
    EXPECT_LT(std::abs(found->file_clock_offset_seconds), 1);
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_OK(status);
  EXPECT_TRUE(std::filesystem::is_empty(shared.path()));
}

TEST(RankCheckTest, ADirectoryThatIsNotThereIsNamedWithItsHost) {
  const ScratchDirectory shared;
  SingleProcess alone;
  const auto found = CheckRank(alone, shared.path() / "missing");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(found.status().message().find("missing"), absl::string_view::npos);
  EXPECT_FALSE(std::filesystem::exists(shared.path() / "missing"));
}

TEST(RankFindingsTest, AreTheSameAfterJson) {
  RankFindings findings{.rank = 3, .world_size = 4, .host = "node\"3", .blas_core = "Zen"};
  findings.openmp_runtimes = {"/usr/lib/libgomp.so.1"};
  findings.clock_offset_seconds = -0.25;
  const auto read = ParseRankFindings(ToJsonLine(findings));
  ASSERT_OK(read.status());
  EXPECT_EQ(ToJsonLine(*read), ToJsonLine(findings));
  EXPECT_EQ(read->host, "node\"3");
  for (const char* bad : {"", "{", "[]", "{\"rank\": \"x\"}", "Open MPI says hello"}) {
    EXPECT_EQ(ParseRankFindings(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace rank_check_test
}  // namespace braid
