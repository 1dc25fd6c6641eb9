// The decisions of supervision as one pure function: what to do with a run, given what is seen of
// it. No clock, file or process is touched here, so every rule is tested with plain values.
//
// Two observers share the table of rules:
//   Supervisor      observes, decides and acts about twenty times a second (supervisor.h);
//   a reader        (GetRun, EnsureSupervised) observes the run directory from outside and derives
//                   the state of the run, or learns that the run needs a new supervisor
//                   (observe_run.h).
// kRules in decision.cc is the table; decision_test covers every row.
#ifndef BRAID_CONTROL_SUPERVISION_DECISION_H_
#define BRAID_CONTROL_SUPERVISION_DECISION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"
#include "runs/stop_request.h"

namespace braid {

// The process in charge of the run, as far as the observer can see.
enum class Attendance {
  // The observer is the supervisor and holds supervisor.lock.
  kSelf,
  // A supervisor is alive, or may be: it runs elsewhere and ranks still send heartbeats.
  kAttended,
  // The supervisor is dead and ran on this machine, where any process may start another.
  kOrphaned,
  // The supervisor ran on another machine and no rank reports: no one will act on the run.
  kAbandoned,
  // There is no process.json: the launch has not written it yet, or a scheduler owns the run.
  kUnrecorded,
};

// The newest attempt, that is the newest start of mpirun.
enum class AttemptPhase {
  // No process of the attempt is left here, and no heartbeat shows that it runs elsewhere.
  kGone,
  // The very process of attempt.json is alive on this machine.
  kRunning,
  // mpirun has exited; its ranks may have outlived it.
  kExited,
  // The process cannot be seen (another machine, container or boot), but its ranks report.
  kUnseen,
  // mpirun could not be executed.
  kNotExecuted,
};

// What one observer sees of a run at one moment.
struct Observation {
  Attendance attendance = Attendance::kSelf;
  // State of the newest event; RUN_STATE_UNSPECIFIED when there is none.
  v1::RunState recorded = v1::RUN_STATE_UNSPECIFIED;
  // The run was launched or resumed after its newest event, which is the end of the last launch.
  bool new_launch = false;
  // Seconds since the launch was recorded, when a supervisor that has not written its first event
  // may still do so; absent when no supervisor is expected.
  std::optional<double> launch_seconds;

  AttemptPhase attempt = AttemptPhase::kGone;
  // attempt.json is of the attempt that the newest event announces. A supervisor that is killed
  // between the event and the file leaves the file of the attempt before, with its exit.json.
  bool begun = true;
  // The observer follows the heartbeats of the attempt.
  bool attached = false;
  // A rank of the attempt has sent a heartbeat.
  bool reported = false;
  // The heartbeats name a hang, or the attempt was ended because of one.
  bool hung = false;
  // SIGTERM was sent to mpirun.
  bool terminated = false;
  // Another attempt may succeed. Used for failures without an exit record, which has such a field.
  bool retryable = true;
  // Seconds for which the observer has found the attempt kUnseen.
  double unseen_seconds = 0;

  // exit.json of the attempt, and the seconds since the observer first saw it.
  std::optional<ExitRecord> exit;
  double exit_seconds = 0;
  // Seconds since the observer first saw the request to stop this launch, without those in which
  // the observer was stopped itself; absent without a request.
  std::optional<double> stop_seconds;
  // The reason if the scheduler requested the stop because it ends the job; empty if a user did.
  std::string stop_reason = {};
  // The scheduler, which ends the job, has queued it again.
  bool requeued = false;
  // The observer is the first supervisor in a job that was queued again.
  bool job_restarted = false;
  // Remaining seconds of the pause before a restart.
  double pause_seconds = 0;
  // Restarts since the newest checkpoint.
  int32_t restarts = 0;
};

struct DecisionLimits {
  // Time from the request to stop until mpirun gets SIGTERM, and from then until everything is
  // killed.
  double stop_grace_seconds = kStopGraceSeconds;
  double kill_grace_seconds = kKillGraceSeconds;
  // Maximum time that a trainer may take to exit after it has written exit.json.
  double exit_grace_seconds = 15;
  // Maximum wait for an attempt that cannot be seen.
  double silence_seconds = 300;
  // Maximum time from the record of a launch to the first event; enough for a second supervisor if
  // the first one dies.
  double launch_grace_seconds = 30;
  // Provides max_restarts and backoff_seconds. The default of 0 restarts is for a reader, which
  // restarts nothing.
  v1::SupervisionConfig supervision = {};
};

enum class ActionKind {
  // Do nothing: the run has ended, or another supervisor acts on it.
  kLeave,
  // Start a supervisor for the run.
  kSupervise,
  // Record RUN_QUEUED: the scheduler has queued the job again, and has started it since.
  kRequeue,
  // Start an attempt.
  kStart,
  // Follow the mpirun that an earlier supervisor started.
  kAttach,
  // Continue to follow the attempt.
  kWatch,
  // Wait for the end of a pause, or for an attempt that cannot be seen.
  kWait,
  // Send SIGTERM to the ranks, which then save a checkpoint and exit.
  kSignalRanks,
  // Send SIGTERM to mpirun.
  kTerminate,
  // Kill the remaining processes of the attempt, then decide again.
  kEndAttempt,
  // Record `state`: the end of the run, or RUN_QUEUED when the scheduler will start it again.
  kFinish,
  // Record `incident` with `state`: RUN_RESTARTING after `pause_seconds`, or RUN_FAILED.
  kFail,
};

struct Action {
  ActionKind kind = ActionKind::kLeave;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  v1::IncidentKind incident = v1::INCIDENT_KIND_UNSPECIFIED;
  double pause_seconds = 0;
  // The text of the event, or a notice for a reader. Empty for failures whose cause is only in the
  // log or the heartbeats.
  std::string message = {};
  // The name of the rule that applied.
  std::string_view rule = {};
};

// Returns the action of the first rule that applies to `seen`; some rule always does.
Action Decide(const Observation& seen, const DecisionLimits& limits = {});

// Returns the names of all rules, in the order in which they are tried.
std::span<const std::string_view> DecisionRules();

// The state of a run as a reader derives it, and the reason.
struct Conclusion {
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  // The decision that the state follows from.
  Action action;
  // True when the state is that of the newest event.
  bool is_recorded = false;
};

// Derives the state of a run from what a reader sees: the recorded state while a supervisor is in
// charge or is about to be, and otherwise the end that a supervisor would record, without restarts.
Conclusion Conclude(const Observation& seen, const DecisionLimits& limits = {});

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_DECISION_H_
