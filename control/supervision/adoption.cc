#include "control/supervision/adoption.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/status_macros.h"
#include "control/supervision/child_program.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "control/supervision/supervisor_lock.h"
#include "control/supervision/supervisor_process.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Starts that are too many in too short a time are put off.
class StartLimit {
 public:
  bool Allows(const std::string& run) {
    std::lock_guard lock(mutex_);
    return Clock::now() >= starts_[run].next;
  }
  void Started(const std::string& run) {
    std::lock_guard lock(mutex_);
    Starts& starts = starts_[run];
    const bool soon = Clock::now() - starts.last < std::chrono::minutes(1) + starts.pause;
    starts.count = soon ? starts.count + 1 : 1;
    starts.last = Clock::now();
    starts.pause = PauseAfter(starts.count);
    starts.next = starts.last + starts.pause;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Starts {
    int count = 0;  // each soon after the one before
    std::chrono::seconds pause{0};
    Clock::time_point last;
    Clock::time_point next;
  };
  static std::chrono::seconds PauseAfter(int count) {
    constexpr int kAtOnce = 5;
    if (count < kAtOnce) return std::chrono::seconds(0);
    return std::chrono::seconds(std::min(300, 1 << std::min(count - kAtOnce + 1, 10)));
  }

  std::mutex mutex_;
  std::map<std::string, Starts> starts_;
};

StartLimit& Limit() {
  static StartLimit* const limit = new StartLimit;
  return *limit;
}

bool MayLive(const RunDirectory& run, const ProcessIdentity& supervisor) {
  if (IsLocal(supervisor)) return IsAlive(supervisor);
  return !IsOfThisMachine(supervisor) || HasLiveProcess(run, UnixTime());
}

bool HasNothingToDo(const RunDirectory& run) {
  const auto newest = ReadNewestRunEvent(run.events());
  if (!newest) return run.ReadExit().has_value();
  if (!HasEnded(newest->state())) return false;
  const std::optional<RunHistory> history = ReadRunHistory(run.supervision());
  return !history || !IsLaunchedAnew(run, history->nonce);
}

bool IsOrphan(const RunDirectory& run) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  if (!process.ok() || MayLive(run, process->identity) || HasNothingToDo(run)) return false;
  const absl::StatusOr<v1::RunSpec> spec = run.ReadSpec();
  if (!spec.ok() || access(run.launch().c_str(), R_OK) != 0) return false;
  const v1::LaunchBackend backend = spec->launch().backend();
  if (backend == v1::SLURM || backend == v1::KUBERNETES) return false;
  // One that is just starting has not recorded itself yet.
  return TakeSupervisorLock(run).ok();
}

}  // namespace

bool IsLaunchedAnew(const RunDirectory& run, const std::string& known_nonce) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  return process.ok() && !known_nonce.empty() && process->nonce != known_nonce;
}

absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run) {
  if (!Limit().Allows(run.root()) || !IsOrphan(run)) return false;
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(supervisor, ""));
  ASSIGN_OR_RETURN(ChildProgram child, ForkSupervisor(program, run, {"--adopt"}));
  Limit().Started(run.root());
  RETURN_IF_ERROR(ExecuteSupervisor(child));
  return true;
}

}  // namespace braid
