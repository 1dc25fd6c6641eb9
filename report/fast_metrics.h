// Fast reading of metrics.jsonl, for long runs.
#ifndef BRAID_REPORT_FAST_METRICS_H_
#define BRAID_REPORT_FAST_METRICS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Returns the same as RunDirectory::ReadMetrics(0), including errors, in a fraction of its time: a
// report on twelve runs of 100,000 steps reads a million lines.
absl::StatusOr<std::vector<v1::StepMetrics>> ReadAllMetrics(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_REPORT_FAST_METRICS_H_
