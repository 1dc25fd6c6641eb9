// Exports a run's metrics for other programs, in memory that does not grow with the run.
// docs/formats/metrics.md describes the files.
#ifndef BRAID_RUNS_METRICS_EXPORT_METRICS_EXPORT_H_
#define BRAID_RUNS_METRICS_EXPORT_METRICS_EXPORT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/report.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Receives the next part of the export; an error ends the export.
using ChunkSink = std::function<absl::Status(const v1::ExportMetricsChunk&)>;

// Exports everything that the run has measured so far. NotFound when it is not a run directory,
// DataLoss names a damaged file, InvalidArgument when the format is unspecified.
absl::Status ExportMetrics(const RunDirectory& run, v1::MetricsFormat format,
                           const ChunkSink& sink);

// Returns "run-000002-moe-similarity": the run's directory and name, reduced to letters, digits,
// "-_." and characters beyond ASCII, valid UTF-8 of at most 200 bytes; never empty, "." or "..".
std::string ExportName(const RunDirectory& run, const v1::RunSpec& spec);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_METRICS_EXPORT_H_
