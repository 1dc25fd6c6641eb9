#include "control/supervision/reattach.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/status_macros.h"
#include "control/supervision/child_program.h"
#include "control/supervision/decision.h"
#include "control/supervision/observe_run.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "control/supervision/subprocess.h"
#include "control/supervision/supervisor_lock.h"
#include "control/supervision/supervisor_process.h"
#include "runs/process_identity.h"

namespace braid {
namespace {

// Delays the next start of a supervisor that was started too often in too short a time, so that one
// that cannot run does not keep the machine busy. Per process and run; thread-safe.
class StartLimit {
 public:
  bool Allows(const std::string& run) {
    std::lock_guard lock(mutex_);
    return Clock::now() >= starts_[run].next;
  }
  void Started(const std::string& run) {
    std::lock_guard lock(mutex_);
    Starts& starts = starts_[run];
    // The pause is added: even a supervisor that exits at once is started again only after it.
    const bool soon = Clock::now() - starts.last < std::chrono::minutes(1) + starts.pause;
    starts.count = soon ? starts.count + 1 : 1;
    starts.last = Clock::now();
    starts.pause = PauseAfter(starts.count);
    starts.next = starts.last + starts.pause;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Starts {
    int count = 0;  // starts in a row, each soon after the last
    std::chrono::seconds pause{0};
    Clock::time_point last;
    Clock::time_point next;
  };
  static std::chrono::seconds PauseAfter(int count) {
    constexpr int kStartsWithoutPause = 5;
    if (count < kStartsWithoutPause) return std::chrono::seconds(0);
    return std::chrono::seconds(std::min(300, 1 << std::min(count - kStartsWithoutPause + 1, 10)));
  }

  std::mutex mutex_;
  std::map<std::string, Starts> starts_;
};

StartLimit& Limit() {
  static StartLimit* const limit = new StartLimit;
  return *limit;
}

bool IsScheduled(const RunDirectory& run) {
  const absl::StatusOr<v1::RunSpec> spec = run.ReadSpec();
  // A supervisor could not read the spec either, so starting one would not help.
  if (!spec.ok()) return true;
  const v1::LaunchBackend backend = spec->launch().backend();
  return backend == v1::SLURM || backend == v1::KUBERNETES;
}

bool NeedsSupervisor(const RunDirectory& run) {
  // The process before the events: a supervisor records the end of the run before it exits, so the
  // events that are read after its death are the last. This is also the common case, and cheap.
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  if (!process.ok() || IsAlive(process->identity)) return false;
  const RunHistory history = ReadRunHistory(run.supervision()).value_or(RunHistory());
  const RunFiles files = {.newest = ReadNewestRunEvent(run.events()), .nonce = history.nonce};
  const Observation seen = ObserveRun(run, files, /*created=*/0, UnixTime());
  if (Decide(seen).kind != ActionKind::kSupervise) return false;
  if (access(run.launch().c_str(), R_OK) != 0 || IsScheduled(run)) return false;
  // A supervisor that is just starting holds the lock before it has recorded itself.
  return TakeSupervisorLock(run).ok();
}

}  // namespace

absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run) {
  if (!Limit().Allows(run.root()) || !NeedsSupervisor(run)) return false;
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(supervisor, ""));
  ASSIGN_OR_RETURN(ChildProgram child, ForkSupervisor(program, run, {"--reattach"}));
  // Counted before it is executed, so that failures to execute it are limited as well.
  Limit().Started(run.root());
  RETURN_IF_ERROR(ExecuteSupervisor(child));
  return true;
}

}  // namespace braid
