#include "report/report_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/report/synthetic_run.h"

namespace braid {
namespace report_run_test {

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

TEST_F(ReportRunTest, ReadsAllFilesOfARun) {
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

TEST_F(ReportRunTest, MissingFilesLeaveFieldsEmpty) {
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

TEST_F(ReportRunTest, DamagedMetricsAreNamed) {
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 2}).ok());
  for (const std::string& text : {std::string("{\"step\":1}\n"), std::string("{\"step\":1}\n{"),
                                  std::string(), std::string(5000, '\0')}) {
    std::ofstream(run_.metrics()) << text;
    const absl::Status status = ReadReportRun(run_).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("metrics.jsonl"));
  }
}

TEST_F(ReportRunTest, ListsWhatIsLeftOut) {
  const ReportRun report = ReadReportRun(run_).value();
  for (const char* what : {"curves and speed", "held-out perplexity", "task scores", "samples",
                           "order of the documents", "states and incidents"}) {
    EXPECT_THAT(report.left_out, testing::Contains(testing::StartsWith(what)));
  }
}

TEST_F(ReportRunTest, ReadsTasksMoreSamplesAndIncidents) {
  std::filesystem::create_directories(run_.root() / "tasks");
  std::filesystem::create_directories(run_.root() / "samples");
  std::ofstream(run_.root() / "tasks/result.json")
      << R"({"results":[{"task":"piqa","metrics":[{"name":"acc","value":0.5}]}]})";
  std::ofstream(run_.root() / "samples/b.txt") << "second";
  std::ofstream(run_.root() / "samples/a.txt") << "first";
  std::ofstream(run_.events())
      << R"({"number":"1","time":100,"state":"RUN_STARTING"})"
      << "\n"
      << R"({"number":"2","time":110,"state":"RUN_RUNNING"})"
      << "\n"
      << R"({"number":"3","metrics":{"step":"1"},"time":150,"state":"RUN_RUNNING"})"
      << "\n"
      << R"({"number":"4","time":160,"state":"RUN_RESTARTING","incident":{"kind":"RANK_HUNG"}})"
      << "\n"
      << R"({"number":"5","time":165,"state":"RUN_STARTING"})"
      << "\n"
      << R"({"number":"6","time":170,"state":"RUN_STOPPED"})"
      << "\n"
      << R"({"number":"7","time":1000,"state":"RUN_STARTING"})"
      << "\n"
      << R"({"number":"8","metrics":{"step":"2"},"time":1030,"state":"RUN_RUNNING"})"
      << "\n";
  const ReportRun report = ReadReportRun(run_).value();
  EXPECT_EQ(report.tasks->results(0).task(), "piqa");
  ASSERT_EQ(report.more_samples.size(), 2u);
  EXPECT_EQ(report.more_samples[0].text, "first");
  EXPECT_EQ(report.life.attempts, 3);
  ASSERT_EQ(report.life.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.life.LiveSeconds(), 70 + 30) << "without the pause of a stopped run";
  EXPECT_DOUBLE_EQ(report.life.ended, 1030);
}

TEST_F(ReportRunTest, DamagedTasksAndEventsLeaveOnlyTheirSectionsOut) {
  std::filesystem::create_directories(run_.root() / "tasks");
  std::ofstream(run_.root() / "tasks/result.json") << "{";
  std::ofstream(run_.events()) << "garbage\n";
  const ReportRun report = ReadReportRun(run_).value();
  EXPECT_THAT(report.left_out,
              testing::IsSupersetOf({"task scores: tasks/result.json is damaged",
                                     "states and incidents: events.jsonl is damaged"}));
}

TEST_F(ReportRunTest, ADamagedOrderingReportIsListed) {
  std::ofstream(root_ / "dataset/ordering_report.json") << "{";
  EXPECT_THAT(
      ReadReportRun(run_).value().left_out,
      testing::Contains("order of the documents: ordering_report.json of the dataset is damaged"));
}

TEST_F(ReportRunTest, RunsNamedTwiceAreReadOnceAndTitlesDiffer) {
  const RunDirectory other(root_ / "elsewhere" / "run-000003");
  v1::RunSpec spec;
  spec.set_name("toy");
  ASSERT_TRUE(other.WriteSpec(spec).ok());
  const std::vector<std::filesystem::path> directories = {run_.root(), run_.root() / ".",
                                                          other.root()};
  const std::vector<ReportRun> runs = ReadReportRuns(directories).value();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_NE(runs[0].title, runs[1].title);
  EXPECT_THAT(runs[1].title, HasSubstr("elsewhere"));
}

TEST_F(ReportRunTest, DirectoryWithoutARunIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadReportRun(RunDirectory(root_ / "dataset")).status()));
}

}  // namespace report_run_test
}  // namespace braid
