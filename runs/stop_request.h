// stop.json: a request to stop a launch of a run. As a file it reaches the ranks and their
// supervisor wherever they run, over a shared file system.
#ifndef BRAID_RUNS_STOP_REQUEST_H_
#define BRAID_RUNS_STOP_REQUEST_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "runs/run_directory.h"

namespace braid {

// Time from the stop request until mpirun is terminated if its ranks are still running.
inline constexpr double kStopGraceSeconds = 60;
// Time from then until all processes are killed.
inline constexpr double kKillGraceSeconds = 15;

struct StopRequest {
  // The nonce of process.json when the request was made. A resumed run has another one, so the
  // request does not apply to it.
  std::string nonce;
  // Unix seconds.
  double requested_at = 0;
  // Why, where it was not a user who asked: "Slurm job 12 reaches its time limit".
  std::string reason = {};
};

// Records a request to stop the newest launch; keeps the first request, except that a user's
// request (without a `reason`) replaces another one. FailedPrecondition when the run was never
// launched.
absl::Status RecordStopRequest(const RunDirectory& run, double now, const std::string& reason = {});

// Removes stop.json; errors are ignored.
void RemoveStopRequest(const RunDirectory& run);

// Returns the request, if the newest launch was requested to stop.
std::optional<StopRequest> ReadStopRequest(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_RUNS_STOP_REQUEST_H_
