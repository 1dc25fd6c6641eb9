#include "runs/metrics_reader.h"

#include <gmock/gmock.h>

#include <cmath>

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
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }

  ScratchDirectory scratch_;
  const std::filesystem::path path_ = scratch_ / "metrics.jsonl";
};

TEST_F(MetricsReaderTest, MissingFileHasNoLines) {
  MetricsReader reader(path_);
  EXPECT_FALSE(reader.NextLine());
}

TEST_F(MetricsReaderTest, LineWithoutEndIsNotRead) {
  Append(RandomLines(1, 2, 1) + R"({"step":"3"})");
  MetricsReader reader(path_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2));
}

TEST_F(MetricsReaderTest, SecondPassEndsWhereTheFirstDid) {
  Append(RandomLines(1, 3, 1));
  MetricsReader reader(path_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
  Append(RandomLines(4, 6, 1));
  reader.Rewind();
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
}

TEST_F(MetricsReaderTest, SecondPassSeesWhatAResumedRunHasReplaced) {
  Append(RandomLines(1, 3, 1));
  MetricsReader reader(path_);
  EXPECT_THAT(Steps(reader), ElementsAre(1, 2, 3));
  PutFile(scratch_ / "new", RandomLines(1, 1, 2));
  std::filesystem::rename(scratch_ / "new", path_);
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
  MetricsReader reader(path_);
  ASSERT_TRUE(reader.NextLine());
  ASSERT_OK(reader.Parse().status());
  ASSERT_TRUE(reader.NextLine());
  const absl::Status status = reader.Parse().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("line 2 at byte " + std::to_string(line.size())));
}

}  // namespace metrics_reader_test
}  // namespace braid
