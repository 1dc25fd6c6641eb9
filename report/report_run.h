// What a report says about one run, collected from the run directory.
#ifndef BRAID_REPORT_REPORT_RUN_H_
#define BRAID_REPORT_REPORT_RUN_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"
#include "report/run_life.h"
#include "runs/run_directory.h"

namespace braid {

struct ReportSample {
  std::string name;  // of its file
  std::string text;
};

struct ReportRun {
  std::string title;
  v1::RunSpec spec;
  std::vector<v1::StepMetrics> metrics;  // in step order
  std::optional<v1::Evaluation> evaluation;
  // ordering_report.json of the run's dataset; empty when there is none.
  std::string ordering_report_json;
  // A continuation sampled from the model; empty when there is none.
  std::string sample_text;
  // Others, by name.
  std::vector<ReportSample> more_samples = {};
  std::optional<v1::TasksResult> tasks = {};
  RunLife life = {};
  // Newest of each rank.
  std::vector<v1::Heartbeat> heartbeats = {};
  // What a report would show but for a cause: "held-out perplexity: no evaluation.json".
  std::vector<std::string> left_out = {};
};

// Reads the run's spec and metrics and, where they are there, evaluation.json, tasks/result.json,
// events.jsonl, sample.txt, samples/*.txt and the dataset's ordering_report.json. The title is the
// run's name and directory name. What is missing or, besides metrics and evaluation, damaged is
// told in `left_out`.
// NotFound when it is not a run directory; DataLoss names an unreadable file.
absl::StatusOr<ReportRun> ReadReportRun(const RunDirectory& run);

// Each directory once, in their order. Titles differ: those that would be the same are followed by
// their directories.
absl::StatusOr<std::vector<ReportRun>> ReadReportRuns(
    std::span<const std::filesystem::path> directories);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_RUN_H_
