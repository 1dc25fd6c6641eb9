// The processes of a run, found and signalled from its run directory alone: any
// program on the machine can do it, and a restarted one sees the same.
#ifndef BRAID_CONTROL_SUPERVISION_RUN_PROCESS_H_
#define BRAID_CONTROL_SUPERVISION_RUN_PROCESS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runs/run_directory.h"
#include "runs/stop_request.h"

namespace braid {

// A run whose processes cannot be seen from here (another machine or container) counts
// as alive for this long after its newest heartbeat, and as long as this many of its
// newest step besides: ranks report between steps, and a long step is not a dead run.
inline constexpr double kHeartbeatTimeoutSeconds = 30;
inline constexpr double kHeartbeatTimeoutSteps = 3;

// True while the supervisor or mpirun of the run is there; where they cannot be seen, while there
// is a fresh heartbeat. `now` in Unix seconds.
bool HasLiveProcess(const RunDirectory& run, double now);

// The same of mpirun alone: the attempt of attempt.json.
bool HasLiveAttempt(const RunDirectory& run, double now);

// Process ids of the ranks of this run on this machine: programs of this user, started as
// `<trainer> train RUN_DIR`.
std::vector<int64_t> RankProcesses(const RunDirectory& run);

// Sends SIGTERM to every rank that is not yet in `signalled`, and adds it: a rank
// finishes its step, saves and ends, and a second signal might cut that short. (mpirun
// itself is left alone: it would kill the ranks before they have saved.)
// PermissionDenied when a rank belongs to another user.
absl::Status SignalRanks(const RunDirectory& run, std::set<int64_t>* signalled);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_PROCESS_H_
