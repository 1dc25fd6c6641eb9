// The data of one run in a report, read from its run directory.
#ifndef BRAID_REPORT_REPORT_RUN_H_
#define BRAID_REPORT_REPORT_RUN_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"
#include "report/run_life.h"
#include "runs/run_directory.h"

namespace braid {

struct ReportSample {
  std::string name;  // file name
  std::string text;
};

struct ReportRun {
  std::string title;
  v1::RunSpec spec;
  std::vector<v1::StepMetrics> metrics;  // in step order
  std::optional<v1::Evaluation> evaluation;
  // Which step was evaluated, and why, when it is not the newest; else empty.
  std::string evaluation_note = {};
  // Evaluations with several numbers of active experts; empty when there are none.
  v1::EvaluationResult by_active_experts = {};
  // ordering_report.json of the run's dataset; empty when there is none.
  std::string ordering_report_json;
  // A continuation sampled from the model; empty when there is none.
  std::string sample_text;
  // Further samples, sorted by name.
  std::vector<ReportSample> more_samples = {};
  std::optional<v1::TasksResult> tasks = {};
  std::string tasks_note = {};  // as evaluation_note
  RunLife life = {};
  // The newest heartbeat of each rank.
  std::vector<v1::Heartbeat> heartbeats = {};
  // Data that the report lacks, with the reason: "held-out perplexity: no evaluation.json".
  std::vector<std::string> left_out = {};
};

// Reads the spec and the metrics of the run and, if present, evaluation.json, active_experts.json,
// tasks/result.json, events.jsonl, sample.txt, samples/*.txt and the ordering_report.json of the
// dataset. The title is the name of the run and of its directory. Missing files, and damaged ones
// other than metrics and evaluations, are listed in `left_out`.
// Errors: NotFound if this is not a run directory; DataLoss names an unreadable file.
absl::StatusOr<ReportRun> ReadReportRun(const RunDirectory& run);

// Reads each directory once, in the given order. Titles are unique: equal ones are followed by
// their directories.
absl::StatusOr<std::vector<ReportRun>> ReadReportRuns(
    std::span<const std::filesystem::path> directories);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_RUN_H_
