#include "runs/metrics_export/metrics_export.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace metrics_export_test {

using testing::HasSubstr;

class MetricsExportTest : public testing::Test {
 protected:
  MetricsExportTest() : run_(scratch_ / "run-000007") {
    spec_.set_name("toy");
    EXPECT_OK(run_.WriteSpec(spec_));
  }

  void Measured(const std::string& lines) { PutFile(run_.metrics(), lines); }

  // Returns the files of an export, from name to bytes.
  absl::StatusOr<std::map<std::string, std::string>> Export(v1::MetricsFormat format) {
    std::map<std::string, std::string> files;
    std::string name;
    const absl::Status status =
        ExportMetrics(run_, format, [&](const v1::ExportMetricsChunk& chunk) {
          if (!chunk.file_name().empty()) name = chunk.file_name();
          files[name] += chunk.data();
          largest_chunk_ = std::max(largest_chunk_, chunk.data().size());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return files;
  }

  void ExpectCsvOfTheMetrics() {
    ASSERT_OK_AND_ASSIGN(const auto files, Export(v1::CSV));
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(files.begin()->first, "run-000007-toy/metrics.csv");
    PutFile(scratch_ / "metrics.csv", files.begin()->second);
    EXPECT_EQ(ReadWithoutUs("csv", scratch_ / "metrics.csv", run_.metrics()), 0);
  }
  // Returns what the reader prints about events that are not metrics.
  std::string ExpectEventsOfTheMetrics() {
    const absl::StatusOr<std::map<std::string, std::string>> files = Export(v1::TENSORBOARD);
    EXPECT_OK(files.status());
    if (!files.ok() || files->size() != 1) return "";
    const auto& [name, bytes] = *files->begin();
    EXPECT_THAT(name, testing::StartsWith("run-000007-toy/events.out.tfevents."));
    const std::filesystem::path path = scratch_ / ("board/" + name);
    std::filesystem::create_directories(path.parent_path());
    PutFile(path, bytes);
    EXPECT_EQ(ReadWithoutUs("events", path.parent_path(), run_.metrics(), scratch_ / "rest"), 0);
    return GetFile(scratch_ / "rest");
  }

  ScratchDirectory scratch_;
  RunDirectory run_;
  v1::RunSpec spec_;
  size_t largest_chunk_ = 0;
};

TEST_F(MetricsExportTest, EveryNumberArrivesInBothFormats) {
  Measured(RandomLines(1, 1500, 1));
  ExpectCsvOfTheMetrics();
  EXPECT_THAT(ExpectEventsOfTheMetrics(), HasSubstr("run/configuration 1 \"| setting | value"));
  EXPECT_LT(largest_chunk_, 300u << 10) << "chunks do not grow with the run";
}

TEST_F(MetricsExportTest, OneStepIsARun) {
  Measured(RandomLines(1, 1, 1));
  ExpectCsvOfTheMetrics();
  ExpectEventsOfTheMetrics();
}

TEST_F(MetricsExportTest, RunWithoutStepsGivesFilesWithoutSteps) {
  for (const bool file_exists : {false, true}) {
    if (file_exists) Measured("");
    ASSERT_OK_AND_ASSIGN(const auto csv, Export(v1::CSV));
    EXPECT_THAT(csv.begin()->second, testing::StartsWith("step,time,loss,"));
    EXPECT_TRUE(csv.begin()->second.ends_with(",spike.last_skipped_step\r\n"));
    ASSERT_OK_AND_ASSIGN(const auto events, Export(v1::TENSORBOARD));
    EXPECT_EQ(events.begin()->first, "run-000007-toy/events.out.tfevents.0000000000.braid.0.0");
  }
  ExpectEventsOfTheMetrics();
}

TEST_F(MetricsExportTest, NumbersThatAreNotFiniteStayWhatTheyAre) {
  std::mt19937_64 random(1);
  std::string lines;
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(), 1e300, 1e-300}) {
    v1::StepMetrics metrics = RandomMetrics(std::ssize(lines) + 1, &random);
    metrics.set_loss(value);
    metrics.set_perplexity(value);
    lines += JsonLine(metrics);
  }
  Measured(lines);
  ExpectCsvOfTheMetrics();
  ExpectEventsOfTheMetrics();
}

TEST_F(MetricsExportTest, ReadsLinesOfAnOlderTrainer) {
  Measured(
      "{\"step\":\"1\",\"loss\":4.5,\"time\":1700000000.5}\n"
      "{ \"step\" : \"2\" , \"loss\" : 4.25, \"time\": 1700000001, \"routing\" : [ {\"layer\""
      ":1, \"entropy\":0.5,\"effective_experts\":2,\"active_experts\":2,\"expert_cosine\":1,"
      "\"mean_weights\":[0.5,0.5]} ], \"of_a_newer_one\": 3}\n");
  ExpectCsvOfTheMetrics();
  ExpectEventsOfTheMetrics();
}

// Routing is found in a line whatever its spelling and whatever fields precede it.
TEST_F(MetricsExportTest, RoutingIsFoundHoweverItIsWritten) {
  const std::string layer = R"([{"layer":3,"entropy":0.5,"effective_experts":2,"active_experts":2,)"
                            R"("expert_cosine":1,"mean_weights":[0.5,0.5]}])";
  Measured(R"({"step":"1","extra":{"routing":[]},"routing":)" + layer + "}\n" +
           R"({"step":"2","\u0072outing":)" + layer + "}\n" +
           R"({"step":"3","note":"\"routing\":[]","routing":[]})" + "\n");
  ExpectCsvOfTheMetrics();
}

TEST_F(MetricsExportTest, LineThatIsBeingWrittenIsLeftOut) {
  const std::string lines = RandomLines(1, 12, 1);
  Measured(lines + "{\"step\":\"13\",\"lo");
  ExpectCsvOfTheMetrics();
  ExpectEventsOfTheMetrics();
}

TEST_F(MetricsExportTest, DamagedLineIsNamed) {
  Measured(RandomLines(1, 2, 1) + "rubbish\n");
  for (const v1::MetricsFormat format : {v1::CSV, v1::TENSORBOARD, v1::SUMMARY}) {
    const absl::Status status = Export(format).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("metrics.jsonl"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 3"));
  }
}

TEST_F(MetricsExportTest, LostStepsOfASucceededRunAreNamed) {
  ASSERT_OK(run_.WriteExit({.outcome = std::string(kSucceeded), .error = "", .step = 3}));
  for (const v1::MetricsFormat format : {v1::CSV, v1::TENSORBOARD, v1::SUMMARY}) {
    Measured(RandomLines(1, 2, 1));
    EXPECT_FAILS(Export(format), absl::StatusCode::kDataLoss, "metrics.jsonl",
                 "ends at step 2 of 3");
    Measured(std::string(5000, '\0'));
    EXPECT_FAILS(Export(format), absl::StatusCode::kDataLoss, "metrics.jsonl", "line 1");
    Measured(RandomLines(1, 3, 1));
    EXPECT_OK(Export(format).status());
  }
}

TEST_F(MetricsExportTest, EvaluationAndSampleAreInTheEvents) {
  Measured(RandomLines(1, 12, 1));
  PutFile(run_.evaluation(),
          R"({"step":"12","domains":[{"domain":"Gr\u00fc\u00dfe/a|b",)"
          R"("num_tokens_after_first_segment":"9","loss_after_first_segment":2.5}],)"
          R"("total":{"domain":"all"}})");
  PutFile(run_.sample(), "The license\n\xFF of");
  const std::string rest = ExpectEventsOfTheMetrics();
  EXPECT_THAT(rest, HasSubstr("heldout/Gr\xC3\xBC\xC3\x9F"
                              "e/a|b/loss 12 2.5\n"));
  EXPECT_THAT(rest, HasSubstr("run/evaluation 12 \"Step 12"));
  EXPECT_THAT(rest, HasSubstr("run/sample 12 \"    The license\\n    \\ufffd of"));
}

TEST_F(MetricsExportTest, DamagedEvaluationIsNamed) {
  PutFile(run_.evaluation(), "{");
  const absl::Status status = Export(v1::TENSORBOARD).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("evaluation.json"));
}

TEST_F(MetricsExportTest, TheSameRunGivesTheSameBytes) {
  Measured(RandomLines(1, 12, 1));
  EXPECT_EQ(*Export(v1::TENSORBOARD), *Export(v1::TENSORBOARD));
}

TEST_F(MetricsExportTest, ALaterExportReplacesAnEarlierOne) {
  ASSERT_OK_AND_ASSIGN(const auto before, Export(v1::TENSORBOARD));
  Measured(RandomLines(1, 12, 1));
  ASSERT_OK_AND_ASSIGN(const auto after, Export(v1::TENSORBOARD));
  EXPECT_EQ(before.begin()->first, after.begin()->first);
}

TEST_F(MetricsExportTest, OtherDirectoriesAreNotFound) {
  const absl::Status status = ExportMetrics(RunDirectory(scratch_ / "none"), v1::CSV,
                                            [](const auto&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST_F(MetricsExportTest, UnspecifiedFormatIsAnError) {
  EXPECT_EQ(Export(v1::METRICS_FORMAT_UNSPECIFIED).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(MetricsExportTest, AnErrorOfTheReceiverEndsTheExport) {
  Measured(RandomLines(1, 3000, 1));
  int calls = 0;
  const absl::Status status = ExportMetrics(run_, v1::CSV, [&](const auto&) {
    ++calls;
    return absl::CancelledError("gone");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST(ExportNameTest, IsSafeForADirectory) {
  const auto name = [](const std::string& directory, const std::string& run) {
    v1::RunSpec spec;
    spec.set_name(run);
    return ExportName(RunDirectory(directory), spec);
  };
  EXPECT_EQ(name("/data/run-000001", "moe 8E/similarity"), "run-000001-moe_8E_similarity");
  EXPECT_EQ(name("/data/run-000001/", ""), "run-000001");
  EXPECT_EQ(name("/data/run-1", "../../etc"), "run-1-.._.._etc");
  EXPECT_EQ(name("/data/run-1", "gr\xC3\xBCn"), "run-1-gr\xC3\xBCn");
  EXPECT_EQ(name("/", ""), "run");
  EXPECT_EQ(name("/data/run-\xFF", ""), "run-\xEF\xBF\xBD");
  EXPECT_EQ(name("/data/run-1", std::string(300, 'x')), "run-1-" + std::string(194, 'x'));
  // A cut at the limit would split the two bytes of a character.
  std::string umlauts;
  for (int i = 0; i < 150; ++i) umlauts += "\xC3\xBC";
  EXPECT_EQ(name("/data/run-10", umlauts), "run-10-" + umlauts.substr(0, 192));
  EXPECT_EQ(name("/data/..", ""), "run");
}

}  // namespace metrics_export_test
}  // namespace braid
