// Keeps one run alive from launch to end: starts mpirun as launch.json says, records what happens
// in events.jsonl, ends attempts that hang, and restarts the run from its newest checkpoint.
// decision.h has the rules and docs/control.md explains them.
//
//   ASSIGN_OR_RETURN(auto supervisor, Supervisor::Open(RunDirectory(path), {}));
//   ASSIGN_OR_RETURN(v1::RunState end, supervisor->Run([] { return StopSignal::kNone; }));
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/supervision/decision.h"
#include "control/supervision/followed_attempt.h"
#include "control/supervision/heartbeat_watch.h"
#include "control/supervision/metrics_follower.h"
#include "control/supervision/run_journal.h"
#include "control/supervision/scheduler_job.h"
#include "control/supervision/step_times.h"
#include "control/supervision/supervisor_lock.h"
#include "runs/run_directory.h"
#include "runs/stop_request.h"

namespace braid {

struct SupervisorOptions {
  // Re-attach to a run whose supervisor died: a run that has ended is left as it is, where
  // otherwise it would be started again.
  bool reattach = false;
  double stop_grace_seconds = kStopGraceSeconds;
  double kill_grace_seconds = kKillGraceSeconds;
  // Maximum time for which writing an event is repeated.
  double write_patience_seconds = 300;
  WatchLimits limits;
  SchedulerJob job;
};

// Observes the run, decides (decision.h) and acts, in one thread. Everything that matters is in the
// run directory: a supervisor that is killed at any moment is replaced by another one, which
// re-attaches to the live mpirun.
class Supervisor {
 public:
  // Takes charge of the run. AlreadyExists when it has a supervisor; NotFound when `run` is not a
  // run directory.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Open(const RunDirectory& run,
                                                          const SupervisorOptions& options);

  // Blocks until the run has ended, or until it waits for the next start of its job, and returns
  // its last state. A `stop_signal` has the effect of stop.json. Errors are those of a run
  // directory that is damaged or cannot be written; mpirun continues to run then.
  absl::StatusOr<v1::RunState> Run(const std::function<StopSignal()>& stop_signal);

 private:
  Supervisor(RunDirectory run, SupervisorOptions options, FileLock lock)
      : run_(std::move(run)), options_(options), lock_(std::move(lock)) {}

  absl::Status Claim();
  void TakeSignal(StopSignal signal);
  void ObserveStop(Observation* seen);
  void FindAttempt();
  Observation Observe();
  DecisionLimits Limits() const;
  absl::Status Act(const Action& action);

  absl::Status FollowSteps();
  absl::Status FollowHeartbeats();
  absl::Status RecordFirstReport();
  absl::Status Requeue();
  absl::Status StartAttempt();
  absl::StatusOr<AttemptProcess> LaunchAttempt();
  void Follow(AttemptProcess process);
  absl::Status RecordFailure(const Action& action);

  const RunDirectory run_;
  const SupervisorOptions options_;
  const FileLock lock_;
  v1::RunSpec spec_;
  std::unique_ptr<RunJournal> journal_;
  std::unique_ptr<MetricsFollower> steps_;
  StepTimes step_times_;

  // The launch that is to be started has no event yet.
  bool new_launch_ = false;
  // The job was queued again, but no event records it yet.
  bool job_restarted_ = false;
  // The end of the run, or of this job, is recorded.
  bool finished_ = false;
  // The decision of the scheduler about the job, after it has asked the job to end.
  std::shared_future<JobEnd> job_end_;
  std::optional<FollowedAttempt> attempt_;
  // The error of executing mpirun, until it is recorded.
  absl::Status not_executed_;
  // Seconds since the request to stop was first seen, without those in which this process was
  // stopped; and the time of the last look, steady clock.
  std::optional<double> stop_seconds_;
  double stop_looked_at_ = 0;
  std::optional<double> unseen_since_;  // steady clock
  double restart_at_ = 0;               // steady clock
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_
