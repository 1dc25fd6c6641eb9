#include "control/supervision/observe_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "control/supervision/run_process.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"

namespace braid {
namespace {

Attendance AttendanceOf(const absl::StatusOr<ProcessRecord>& process, bool is_live,
                        bool supervisor_is_live) {
  if (!process.ok()) return Attendance::kUnrecorded;
  // Where process ids mean something, the process itself counts: mpirun may outlive it.
  if (IsLocal(process->identity)) {
    return supervisor_is_live ? Attendance::kAttended : Attendance::kOrphaned;
  }
  if (is_live) return Attendance::kAttended;
  // After a reboot, or in another container of this machine, its processes cannot be seen, but the
  // run is still this machine's to continue.
  return IsOfThisMachine(process->identity) ? Attendance::kOrphaned : Attendance::kAbandoned;
}

bool HasReported(std::span<const v1::Heartbeat> heartbeats, double launched_at) {
  return std::any_of(
      heartbeats.begin(), heartbeats.end(),
      [launched_at](const v1::Heartbeat& beat) { return beat.time() >= launched_at; });
}

}  // namespace

double ModifiedAt(const std::filesystem::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec;
}

bool HasNewLaunch(const absl::StatusOr<ProcessRecord>& process, const std::string& known_nonce) {
  return process.ok() && !known_nonce.empty() && process->nonce != known_nonce;
}

Observation ObserveRun(const RunDirectory& run, const RunFiles& files, double created, double now) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  Observation seen;
  // The order matters: a process that ends between the two observations has written its exit.json
  // by the second one, so a success is never mistaken for a death.
  const bool is_live = HasLiveProcess(run, now);
  seen.exit = run.ReadExit();
  seen.exit_seconds = now - ModifiedAt(run.exit());
  const bool supervisor_is_live = process.ok() && IsAlive(process->identity);
  std::error_code error;  // a file that cannot be looked at counts as missing
  seen.attendance = AttendanceOf(process, is_live, supervisor_is_live);
  if (files.newest) seen.recorded = files.newest->state();
  // The supervisor of a new launch that is dead on another machine will not record its first event.
  // Right after the launch it may still be starting.
  const bool is_newer = HasNewLaunch(process, files.nonce);
  const bool starts_elsewhere =
      is_newer && !IsOfThisMachine(process->identity) &&
      std::abs(now - process->launched_at) < DecisionLimits().launch_grace_seconds;
  seen.new_launch =
      HasEnded(seen.recorded) && process.ok() && process->nonce != files.nonce &&
      (supervisor_is_live || starts_elsewhere || (is_newer && IsOfThisMachine(process->identity)));
  if (seen.new_launch && starts_elsewhere) seen.attendance = Attendance::kAttended;
  if (!process.ok()) {
    seen.launch_seconds = now - created;
  } else if (std::filesystem::exists(run.launch(), error)) {
    seen.launch_seconds = now - process->launched_at;
  }
  seen.attempt = is_live ? AttemptPhase::kRunning : AttemptPhase::kGone;
  // Without events no supervisor has interpreted the end of the attempt, so this observer does.
  seen.attached = !files.newest;
  seen.reported = HasReported(files.heartbeats, process.ok() ? process->launched_at : 0);
  // A reader ends nothing, so it does not matter how long ago the request was made.
  if (ReadStopRequest(run)) seen.stop_seconds = 0;
  return seen;
}

}  // namespace braid
