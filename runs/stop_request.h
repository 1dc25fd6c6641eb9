// stop.json: somebody asked a launch of a run to stop. A file, so that it reaches the ranks and
// their supervisor wherever they run over a shared file system.
#ifndef BRAID_RUNS_STOP_REQUEST_H_
#define BRAID_RUNS_STOP_REQUEST_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "runs/run_directory.h"

namespace braid {

// From a request to stop until mpirun is ended, though ranks have not.
inline constexpr double kStopGraceSeconds = 60;
// From then until all is killed.
inline constexpr double kKillGraceSeconds = 15;

struct StopRequest {
  // Of process.json: a run that is resumed has another, which nobody has asked to stop.
  std::string nonce;
  // Unix seconds.
  double requested_at = 0;
};

// Records that the newest launch is asked to stop; keeps the time of the first request.
// FailedPrecondition when the run was never launched.
absl::Status RecordStopRequest(const RunDirectory& run, double now);

// Absent unless the newest launch was asked to stop.
std::optional<StopRequest> ReadStopRequest(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_RUNS_STOP_REQUEST_H_
