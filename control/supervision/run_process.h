// Finds and signals the processes of a run, given only its run directory, so that any program on
// the machine can do it and a restarted program sees the same.
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

// A run whose processes cannot be seen (another machine or container) counts as alive for this long
// after its newest heartbeat, plus this many times its newest step time: a long step is not a dead
// run.
inline constexpr double kHeartbeatTimeoutSeconds = 30;
inline constexpr double kHeartbeatTimeoutSteps = 3;

// Returns true while the supervisor or mpirun of the run is alive, or, where they cannot be seen,
// while there is a fresh heartbeat. `now` is in Unix seconds.
bool HasLiveProcess(const RunDirectory& run, double now);

// Returns true while mpirun, the process of attempt.json, is alive; otherwise as above.
bool HasLiveAttempt(const RunDirectory& run, double now);

// Returns the process ids of the ranks of this run on this machine: processes of this user that
// were started as `<trainer> train RUN_DIR`.
std::vector<int64_t> RankProcesses(const RunDirectory& run);

// Returns true if the process is one of them.
bool IsRankProcess(const RunDirectory& run, int64_t pid);

// Sends SIGTERM to every rank that is not in `signaled`, and adds it. A rank then finishes its
// step, saves a checkpoint and exits; a second signal might interrupt that. mpirun is not
// signaled: it would kill the ranks before they have saved. PermissionDenied when a rank belongs
// to another user.
absl::Status SignalRanks(const RunDirectory& run, std::set<int64_t>* signaled);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_PROCESS_H_
