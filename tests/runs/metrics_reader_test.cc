#include "runs/metrics_reader.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/file_error.h"
#include "runs/metrics_line.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace metrics_reader_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> Steps(MetricsReader& reader) {
  std::vector<int64_t> steps;
  while (reader.NextLine()) steps.push_back(reader.Parse().value().step());
  return steps;
}

class MetricsReaderTest : public testing::Test {
 protected:
  void Append(const std::string& text) {
    std::ofstream(run_.metrics(), std::ios::binary | std::ios::app) << text;
  }
  // Reads the whole file of a run that ended after `step` steps, and returns the check of its end.
  absl::Status EndAfter(std::string_view outcome, int64_t step) {
    EXPECT_OK(run_.WriteExit({.outcome = std::string(outcome), .error = "", .step = step}));
    MetricsReader reader(run_);
    const std::vector<int64_t> steps = Steps(reader);
    return reader.CheckEnd(steps.empty() ? 0 : steps.back());
  }

  ScratchDirectory scratch_;
  const RunDirectory run_{scratch_.path()};
};

TEST_F(MetricsReaderTest, MissingFileHasNoLines) {
  MetricsReader reader(run_);
  EXPECT_FALSE(reader.NextLine());
}

// A link to itself cannot be opened, and the first read of a process's memory fails.
TEST_F(MetricsReaderTest, AFileThatCannotBeReadIsAnErrorAndNotAnEmptyOne) {
  for (const char* target : {"metrics.jsonl", "/proc/self/mem"}) {
    std::filesystem::remove(run_.metrics());
    std::filesystem::create_symlink(target, run_.metrics());
    MetricsReader reader(run_);
    EXPECT_FALSE(reader.NextLine());
    EXPECT_TRUE(IsSystemError(reader.CheckEnd(0))) << target << " " << reader.CheckEnd(0);
    EXPECT_FALSE(run_.ReadMetrics(0).ok()) << target;
  }
}

TEST_F(MetricsReaderTest, LineWithoutEndIsNotRead) {
  Append(RandomLines(1, 2, 1) + R"({"step":"3"})");
  MetricsReader reader(run_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2));
}

TEST_F(MetricsReaderTest, SecondPassEndsWhereTheFirstDid) {
  Append(RandomLines(1, 3, 1));
  MetricsReader reader(run_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
  Append(RandomLines(4, 6, 1));
  reader.Rewind();
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
}

TEST_F(MetricsReaderTest, SecondPassSeesWhatAResumedRunHasReplaced) {
  Append(RandomLines(1, 3, 1));
  MetricsReader reader(run_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
  PutFile(scratch_ / "new", RandomLines(1, 1, 2));
  std::filesystem::rename(scratch_ / "new", run_.metrics());
  reader.Rewind();
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
}

v1::StepMetrics ParsedByProtobuf(const std::string& line) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::StepMetrics metrics;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &metrics, options).ok()) << line;
  return metrics;
}

TEST(MetricsLineTest, ParsesWhatProtobufParses) {
  std::mt19937_64 random(11);
  std::vector<std::string> lines = {"{}", R"({"step":"3","added_later":[1]})", R"({"step":3.0})",
                                    R"({"step":"4","loss":null})", R"({"learningRate":0.5})"};
  for (int64_t step = 1; step <= 60; ++step) {
    v1::StepMetrics metrics = RandomMetrics(step, &random);
    if (step % 7 == 0) metrics.set_loss(step % 2 == 0 ? NAN : -INFINITY);
    lines.push_back(JsonLine(metrics));
  }
  for (const std::string& line : lines) {
    v1::StepMetrics metrics;
    metrics.set_gradient_norm(7);  // previous contents have no influence
    ASSERT_TRUE(ParseMetricsLine(line, &metrics)) << line;
    EXPECT_EQ(metrics.DebugString(), ParsedByProtobuf(line).DebugString()) << line;
  }
}

TEST(MetricsLineTest, RejectsWhatIsNotStepMetrics) {
  v1::StepMetrics metrics;
  for (const char* line : {"rubbish", "[1]", R"({"step":)", R"({"step":"x"})"}) {
    EXPECT_FALSE(ParseMetricsLine(line, &metrics)) << line;
  }
}

TEST_F(MetricsReaderTest, DamagedLineIsNamed) {
  const std::string line = RandomLines(1, 1, 1);
  Append(line + "rubbish\n");
  MetricsReader reader(run_);
  ASSERT_TRUE(reader.NextLine());
  ASSERT_OK(reader.Parse().status());
  ASSERT_TRUE(reader.NextLine());
  const absl::Status status = reader.Parse().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("line 2 at byte " + std::to_string(line.size())));
}

TEST_F(MetricsReaderTest, EndThatCannotBecomeALineIsNamed) {
  const std::string line = RandomLines(1, 1, 1);
  for (const std::string& end : {std::string(5000, '\0'), std::string("{\"step\":\0\0", 10),
                                 std::string("\0", 1), std::string("rubbish")}) {
    PutFile(run_.metrics(), line + end);
    MetricsReader reader(run_);
    ASSERT_TRUE(reader.NextLine());
    ASSERT_OK(reader.Parse().status());
    ASSERT_TRUE(reader.NextLine());
    EXPECT_FAILS(reader.Parse(), absl::StatusCode::kDataLoss, "metrics.jsonl",
                 "line 2 at byte " + std::to_string(line.size()));
    EXPECT_EQ(reader.Parse().status().message().find('\0'), absl::string_view::npos);
    EXPECT_FALSE(reader.NextLine());
  }
}

TEST_F(MetricsReaderTest, ARunThatHasSucceededHasTheLineOfItsLastStep) {
  EXPECT_OK(EndAfter(kSucceeded, 3)) << "without a file there is nothing to lose";
  Append("");
  EXPECT_FAILS(EndAfter(kSucceeded, 3), absl::StatusCode::kDataLoss, "metrics.jsonl",
               "expected step 3");
  Append(RandomLines(1, 2, 1));
  EXPECT_FAILS(EndAfter(kSucceeded, 3), absl::StatusCode::kDataLoss, "metrics.jsonl",
               "ends at step 2 of 3");
  std::string last = RandomLines(3, 3, 1);
  last.pop_back();
  Append(last);
  EXPECT_FAILS(EndAfter(kSucceeded, 3), absl::StatusCode::kDataLoss, "ends at step 2 of 3");
  Append("\n");
  EXPECT_OK(EndAfter(kSucceeded, 3));
  Append("{");
  EXPECT_FAILS(EndAfter(kSucceeded, 3), absl::StatusCode::kDataLoss, "a truncated line");
}

TEST_F(MetricsReaderTest, ARunThatWasInterruptedMayEndAnywhere) {
  Append(RandomLines(1, 2, 1) + "{");
  EXPECT_OK(EndAfter(kStopped, 3));
  EXPECT_OK(EndAfter(kFailed, 3));
  ASSERT_OK(run_.RemoveExit());
  MetricsReader reader(run_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2));
  EXPECT_OK(reader.CheckEnd(2));
}

}  // namespace metrics_reader_test
}  // namespace braid
