// Keeps one run alive from launch to end: starts mpirun as launch.json says, tells what happens in
// events.jsonl, ends attempts that hang, and starts the run again from its newest checkpoint.
// docs/supervision.md has the rules.
//
//   ASSIGN_OR_RETURN(auto supervisor, Supervisor::Open(RunDirectory(path), {}));
//   ASSIGN_OR_RETURN(v1::RunState end, supervisor->Run([&] { return g_terminated != 0; }));
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/heartbeat_watch.h"
#include "control/supervision/host_probe.h"
#include "control/supervision/metrics_follower.h"
#include "control/supervision/run_journal.h"
#include "control/supervision/slow_rank_detector.h"
#include "control/supervision/supervisor_lock.h"
#include "runs/run_directory.h"
#include "runs/stop_request.h"

namespace braid {

struct SupervisorOptions {
  // Takes up a run that has lost its supervisor; one that has ended stays as it is.
  bool adopt = false;
  double stop_grace_seconds = kStopGraceSeconds;
  double kill_grace_seconds = kKillGraceSeconds;
  // How long an event that cannot be written is tried again.
  double write_patience_seconds = 300;
  WatchLimits limits;
};

// One thread. Everything that matters is in the run directory: one that is killed at any moment
// is replaced by another, which adopts the live mpirun.
class Supervisor {
 public:
  // AlreadyExists when the run has a supervisor; NotFound when it is no run directory.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Open(const RunDirectory& run,
                                                          const SupervisorOptions& options);

  // Until the run has ended; `stop_requested` is as good as stop.json. Errors are those of the
  // run directory, which cannot be written or is damaged; then mpirun goes on.
  absl::StatusOr<v1::RunState> Run(const std::function<bool()>& stop_requested);

 private:
  Supervisor(RunDirectory run, SupervisorOptions options, FileLock lock)
      : run_(std::move(run)), options_(options), lock_(std::move(lock)) {}

  absl::Status Claim();
  absl::Status Begin(const std::function<bool()>& stop_requested);
  absl::Status GoOnRestarting(std::optional<AttemptProcess> given_up);
  absl::Status AwaitSilence(const std::function<bool()>& stop_requested);
  absl::Status Turn();
  absl::Status TurnAttempt();
  absl::Status StartAttempt();
  absl::StatusOr<AttemptProcess> LaunchAttempt();
  void Attach(AttemptProcess attempt);
  absl::Status FollowSteps();
  void AddStepTime(const v1::StepMetrics& step);
  absl::Status LookAtHeartbeats();
  absl::Status TakeHeartbeats(double now);
  absl::Status ReportSlowRanks();
  absl::Status EndHungAttempt(const HeartbeatWatch::Hang& hang);
  absl::Status AttemptEnded();
  absl::Status EndAsExitSays(const ExitRecord& exit);
  absl::Status Lost();
  void RecordStop();
  absl::Status HurryStop();
  absl::Status Fail(v1::RunIncident incident, bool retryable);
  HeartbeatWatch::Hang WithCutHosts(HeartbeatWatch::Hang hang);
  void ProbeWhenAllWait(double limit, double now);
  double FenceSeconds() const;
  v1::RunIncident NewIncident(v1::IncidentKind kind, std::string cause) const;

  const RunDirectory run_;
  const SupervisorOptions options_;
  const FileLock lock_;
  v1::RunSpec spec_;
  std::string nonce_;  // of the launch
  std::unique_ptr<RunJournal> journal_;
  double look_at_ = 0;  // at heartbeats; steady clock
  std::unique_ptr<MetricsFollower> steps_;
  std::deque<double> step_seconds_;  // of recent steps, of the kind of the newest
  bool upcycled_ = false;            // that kind

  std::optional<AttemptProcess> attempt_;
  std::optional<HeartbeatWatch> watch_;
  std::optional<SlowRankDetector> slow_ranks_;
  std::future<std::vector<Reachability>> probe_;
  double exited_at_ = 0;     // when exit.json of a live attempt was seen; steady clock
  double restart_at_ = 0;    // steady clock
  double stop_seen_at_ = 0;  // the request to stop; steady clock
  bool terminated_ = false;  // mpirun was asked to end
  std::set<int64_t> signalled_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_H_
