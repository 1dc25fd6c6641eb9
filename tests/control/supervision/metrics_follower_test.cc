#include "control/supervision/metrics_follower.h"

#include <gmock/gmock.h>

#include "tests/control/control_fixture.h"

namespace braid {
namespace metrics_follower_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MetricsFollowerTest : public ControlFixture {
 protected:
  void Append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  static std::string Line(int step) { return absl::StrCat("{\"step\":", step, "}\n"); }
  static std::vector<int64_t> Numbers(MetricsFollower* follower, int64_t limit = 100) {
    std::vector<int64_t> numbers;
    const std::vector<v1::RunEvent> events = follower->Next(limit).value();
    for (const v1::RunEvent& event : events) {
      EXPECT_EQ(event.number(), event.metrics().step());
      numbers.push_back(event.number());
    }
    return numbers;
  }
  std::filesystem::path file_ = root_ / "metrics.jsonl";
};

TEST_F(MetricsFollowerTest, ReturnsEachLineOnceAsTheFileGrows) {
  MetricsFollower follower(file_, 0);
  EXPECT_THAT(Numbers(&follower), IsEmpty());
  Append(Line(1) + Line(2));
  EXPECT_THAT(Numbers(&follower), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(&follower), IsEmpty());
  Append(Line(3));
  EXPECT_THAT(Numbers(&follower), ElementsAre(3));
}

TEST_F(MetricsFollowerTest, SkipsEventsThatAreKnown) {
  Append(Line(1) + Line(2) + Line(3));
  MetricsFollower follower(file_, 2);
  EXPECT_THAT(Numbers(&follower), ElementsAre(3));
}

// A branch begins after the step of its checkpoint, so lines and steps differ.
TEST_F(MetricsFollowerTest, FollowsTheFileOfABranch) {
  Append(Line(101) + Line(102));
  MetricsFollower first(file_, 0);
  EXPECT_THAT(Numbers(&first), ElementsAre(101, 102));
  Append(Line(103));
  MetricsFollower restarted(file_, 102);
  EXPECT_THAT(Numbers(&restarted), ElementsAre(103));
}

TEST_F(MetricsFollowerTest, WaitsForTheEndOfALine) {
  MetricsFollower follower(file_, 0);
  Append("{\"step\":");
  EXPECT_THAT(Numbers(&follower), IsEmpty());
  Append("1}\n");
  EXPECT_THAT(Numbers(&follower), ElementsAre(1));
}

TEST_F(MetricsFollowerTest, LimitLosesNoEvent) {
  Append(Line(1) + Line(2) + Line(3));
  MetricsFollower follower(file_, 0);
  EXPECT_THAT(Numbers(&follower, 2), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(&follower, 2), ElementsAre(3));
}

TEST_F(MetricsFollowerTest, FileTruncatedByAResumeRepeatsNothing) {
  Append(Line(1) + Line(2) + Line(3));
  MetricsFollower follower(file_, 0);
  EXPECT_THAT(Numbers(&follower), ElementsAre(1, 2, 3));
  std::ofstream(file_) << Line(1);
  EXPECT_THAT(Numbers(&follower), IsEmpty());
  Append(Line(2) + Line(3) + Line(4));
  EXPECT_THAT(Numbers(&follower), ElementsAre(4));
}

TEST_F(MetricsFollowerTest, NamesTheLineThatIsNotMetrics) {
  Append(Line(1) + "nonsense\n");
  MetricsFollower follower(file_, 0);
  EXPECT_THAT(Numbers(&follower), ElementsAre(1));
  const absl::Status status = follower.Next(10).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("metrics.jsonl:2"));
  Append(Line(3));
  EXPECT_THAT(Numbers(&follower), ElementsAre(3)) << "the bad line is reported once and skipped";
  EXPECT_THAT(Numbers(&follower), ElementsAre());
}

}  // namespace metrics_follower_test
}  // namespace braid
