#include "trainer/report/report_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace braid {
namespace {

using testing::HasSubstr;

class ReportRunTest : public testing::Test {
 protected:
  ReportRunTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "dataset");
    v1::RunSpec spec;
    spec.set_name("toy");
    spec.set_dataset_dir((root_ / "dataset").string());
    EXPECT_TRUE(run_.WriteSpec(spec).ok());
  }
  ~ReportRunTest() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("braid-report-run-") +
       testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid()));
  const RunDirectory run_{root_ / "run-000003"};
};

TEST_F(ReportRunTest, CollectsWhatIsThere) {
  std::ofstream(run_.metrics()) << "{\"step\":1,\"loss\":2.5}\n";
  std::ofstream(run_.root() / "evaluation.json") << R"({"step":1,"total":{"domain":"all"}})";
  std::ofstream(run_.root() / "sample.txt") << "once upon";
  std::ofstream(root_ / "dataset/ordering_report.json") << R"({"order":"RANDOM"})";
  const ReportRun report = ReadReportRun(run_).value();
  EXPECT_EQ(report.title, "toy (run-000003)");
  ASSERT_EQ(report.metrics.size(), 1u);
  EXPECT_EQ(report.metrics[0].loss(), 2.5);
  EXPECT_EQ(report.evaluation->total().domain(), "all");
  EXPECT_EQ(report.sample_text, "once upon");
  EXPECT_EQ(report.ordering_report_json, R"({"order":"RANDOM"})");
}

TEST_F(ReportRunTest, MissingPiecesAreEmpty) {
  const ReportRun report = ReadReportRun(run_).value();
  EXPECT_TRUE(report.metrics.empty());
  EXPECT_FALSE(report.evaluation.has_value());
  EXPECT_EQ(report.sample_text + report.ordering_report_json, "");
}

TEST_F(ReportRunTest, DamagedEvaluationIsNamed) {
  std::ofstream(run_.root() / "evaluation.json") << "{\"step\":";
  const absl::Status status = ReadReportRun(run_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("evaluation.json"));
}

TEST_F(ReportRunTest, DirectoryWithoutARunIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadReportRun(RunDirectory(root_ / "dataset")).status()));
}

}  // namespace
}  // namespace braid
