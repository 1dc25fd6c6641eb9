// What a report says about one run, collected from the run directory.
#ifndef BRAID_TRAINER_REPORT_REPORT_RUN_H_
#define BRAID_TRAINER_REPORT_REPORT_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"
#include "trainer/run_directory.h"

namespace braid {

struct ReportRun {
  std::string title;
  v1::RunSpec spec;
  std::vector<v1::StepMetrics> metrics;  // in step order
  std::optional<v1::Evaluation> evaluation;
  // ordering_report.json of the run's dataset; empty when there is none.
  std::string ordering_report_json;
  // A continuation sampled from the model; empty when there is none.
  std::string sample_text;
};

// Reads the run's spec and metrics and, where they are there, evaluation.json,
// sample.txt and the dataset's ordering_report.json. The title is the run's name and
// directory name.
// NotFound when it is not a run directory; DataLoss names an unreadable file.
absl::StatusOr<ReportRun> ReadReportRun(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_REPORT_RUN_H_
