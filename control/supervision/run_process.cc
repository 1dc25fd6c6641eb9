#include "control/supervision/run_process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runs/process_identity.h"

namespace braid {
namespace {

// `own_clock`: the run is of this machine. A heartbeat of a later time is then one from before its
// clock was set back, which would stay fresh until the clock has caught up.
bool HasFreshHeartbeat(const RunDirectory& run, bool own_clock, double now) {
  const std::optional<v1::StepMetrics> newest = run.ReadNewestMetrics();
  const double step_seconds = newest ? newest->step_seconds() : 0;
  const double timeout = kHeartbeatTimeoutSeconds + kHeartbeatTimeoutSteps * step_seconds;
  const std::vector<v1::Heartbeat> heartbeats = run.ReadHeartbeats();
  return std::any_of(heartbeats.begin(), heartbeats.end(), [&](const v1::Heartbeat& heartbeat) {
    const double age = now - heartbeat.time();
    return age < timeout && (!own_clock || -age < timeout);
  });
}

bool IsLive(const RunDirectory& run, const std::filesystem::path& file, double now) {
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(file);
  if (!record.ok()) return false;
  if (IsLocal(record->identity)) return IsAlive(record->identity);
  // Processes elsewhere are seen by their heartbeats only, which stay fresh for a while after the
  // end.
  return !run.ReadExit().has_value() &&
         HasFreshHeartbeat(run, IsOfThisMachine(record->identity), now);
}

// Returns true if these are the arguments of a rank of the run. Those of mpirun contain the trainer
// as well, but at a later position.
bool IsRankOf(const std::vector<std::string>& arguments, const std::string& run_dir) {
  for (const size_t train : {1, 2}) {  // 2: a script has its interpreter first
    if (arguments.size() == train + 2 && arguments[train] == "train" &&
        arguments[train + 1] == run_dir) {
      return true;
    }
  }
  return false;
}

// Returns true if the process belongs to this user and this container: another user can run a
// program with the same arguments as a rank, and the directories of a container can have the same
// paths as those of its host.
bool IsOwn(int64_t pid) {
  struct stat status;
  return stat(absl::StrCat("/proc/", pid).c_str(), &status) == 0 && status.st_uid == geteuid() &&
         IsOfThisContainer(pid);
}

}  // namespace

bool HasLiveProcess(const RunDirectory& run, double now) {
  return IsLive(run, run.process(), now) || IsLive(run, run.attempt(), now);
}

bool HasLiveAttempt(const RunDirectory& run, double now) { return IsLive(run, run.attempt(), now); }

std::vector<int64_t> RankProcesses(const RunDirectory& run) {
  std::vector<int64_t> ranks;
  for (const int64_t pid : ProcessIds()) {
    if (IsRankProcess(run, pid)) ranks.push_back(pid);
  }
  return ranks;
}

bool IsRankProcess(const RunDirectory& run, int64_t pid) {
  return IsRankOf(ProcessArguments(pid), run.root().string()) && IsOwn(pid);
}

// Called in every iteration of Supervisor::Run while a run stops: ranks may appear late, and each
// is signaled once.
absl::Status SignalRanks(const RunDirectory& run, std::set<int64_t>* signaled) {
  for (const int64_t pid : RankProcesses(run)) {
    if (signaled->contains(pid)) continue;
    // An error other than EPERM is ESRCH: the rank has exited in the meantime.
    if (kill(static_cast<pid_t>(pid), SIGTERM) == 0) {
      signaled->insert(pid);
    } else if (errno == EPERM) {
      return absl::PermissionDeniedError(
          absl::StrCat("process ", pid, " of ", run.root().string(),
                       " belongs to another user; stop the run as that user"));
    }
  }
  return absl::OkStatus();
}

}  // namespace braid
