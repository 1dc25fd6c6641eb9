#include "control/supervision/decision.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/supervision/restart_policy.h"
#include "runs/run_state.h"

namespace braid {
namespace {

using Seen = const Observation&;
using Limits = const DecisionLimits&;

Action Do(ActionKind kind) { return {.kind = kind}; }

Action Finish(v1::RunState state, std::string message) {
  return {.kind = ActionKind::kFinish, .state = state, .message = std::move(message)};
}

// Only the supervisor itself restarts a run: for a reader a failure is the end.
Action Fail(Seen seen, Limits limits, v1::IncidentKind incident, bool retryable,
            std::string message = "") {
  const std::optional<double> pause =
      seen.attendance == Attendance::kSelf
          ? RestartPause(limits.supervision, retryable, seen.restarts)
          : std::nullopt;
  return {.kind = ActionKind::kFail,
          .state = pause ? v1::RUN_RESTARTING : v1::RUN_FAILED,
          .incident = incident,
          .pause_seconds = pause.value_or(0),
          .message = std::move(message)};
}

// Ends a launch that was asked to stop. If the scheduler asked because it has queued the job again,
// the run continues in the next job.
Action Stop(Seen seen, std::string message) {
  if (!seen.stop_reason.empty()) absl::StrAppend(&message, ": ", seen.stop_reason);
  return Finish(seen.requeued ? v1::RUN_QUEUED : v1::RUN_STOPPED, std::move(message));
}

std::string ErrorOf(const ExitRecord& exit) {
  return exit.error.empty() ? "the trainer failed without an error message; see trainer.log"
                            : exit.error;
}

bool IsSelf(Seen seen) { return seen.attendance == Attendance::kSelf; }
bool HasNoEvent(Seen seen) { return seen.recorded == v1::RUN_STATE_UNSPECIFIED; }
// Returns true if the newest launch has no event yet.
bool IsNew(Seen seen) {
  return HasNoEvent(seen) || seen.recorded == v1::RUN_QUEUED || HasEnded(seen.recorded);
}
bool IsRestarting(Seen seen) { return seen.recorded == v1::RUN_RESTARTING; }
bool IsGone(Seen seen) { return seen.attempt == AttemptPhase::kGone; }
bool IsRunning(Seen seen) { return seen.attempt == AttemptPhase::kRunning; }
bool StopsFor(Seen seen, double seconds) {
  return seen.stop_seconds && *seen.stop_seconds >= seconds;
}
bool ExitSays(Seen seen, std::string_view outcome) {
  return seen.exit && seen.exit->outcome == outcome;
}

std::string OrphanNotice(Seen seen) {
  if (!IsGone(seen)) {
    return "its supervisor has exited; braid starts another one within seconds, and training "
           "continues meanwhile";
  }
  return absl::StrCat(
      "all of its processes have exited; braid ",
      seen.exit || seen.stop_seconds ? "records its end" : "restarts it from its newest checkpoint",
      " within seconds");
}

struct Rule {
  std::string_view name;
  bool (*applies)(Seen seen, Limits limits);
  Action (*act)(Seen seen, Limits limits);
};

// The first rule that applies decides, so that each may rely on those above it not applying. The
// order carries the invariants: an exit record is trusted before signs of a failure, success before
// everything, and an attempt is ended for certain before its end is interpreted, because a live
// rank may still write exit.json.
constexpr std::array kRules = {
    // A run that has succeeded stays so, even if a scheduler starts its job again.
    Rule{"run has ended",
         [](Seen seen, Limits) {
           return HasEnded(seen.recorded) &&
                  (!seen.new_launch || seen.recorded == v1::RUN_SUCCEEDED);
         },
         [](Seen, Limits) { return Do(ActionKind::kLeave); }},

    // Readers: another process is in charge, or should be. A run with a result but without events
    // was trained without a supervisor; a new supervisor would train it again.
    Rule{"run is orphaned",
         [](Seen seen, Limits) {
           return seen.attendance == Attendance::kOrphaned && !(HasNoEvent(seen) && seen.exit);
         },
         [](Seen seen, Limits) {
           return Action{.kind = ActionKind::kSupervise, .message = OrphanNotice(seen)};
         }},
    Rule{"another process is in charge",
         [](Seen seen, Limits) {
           return !IsSelf(seen) && seen.attendance != Attendance::kAbandoned && !HasNoEvent(seen);
         },
         [](Seen, Limits) { return Do(ActionKind::kLeave); }},
    Rule{"launch is in progress",
         [](Seen seen, Limits limits) {
           return !IsSelf(seen) && HasNoEvent(seen) && IsGone(seen) && !seen.exit &&
                  seen.launch_seconds && *seen.launch_seconds < limits.launch_grace_seconds;
         },
         [](Seen, Limits) { return Do(ActionKind::kLeave); }},
    Rule{"run was never started",
         [](Seen seen, Limits) {
           return seen.attendance == Attendance::kUnrecorded && IsGone(seen) && !seen.exit;
         },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, v1::LAUNCH_FAILED, false,
                       "the trainer was never started; resume the run, or repeat its launch");
         }},

    // The beginning of a launch.
    Rule{"new launch", [](Seen seen, Limits) { return IsSelf(seen) && IsNew(seen); },
         [](Seen, Limits) { return Do(ActionKind::kStart); }},
    // The attempt ended with the last job and did not fail, so this precedes the rules for
    // failures.
    Rule{
        "job was queued again",
        [](Seen seen, Limits) {
          return IsSelf(seen) && seen.job_restarted && !ExitSays(seen, kSucceeded);
        },
        [](Seen, Limits) { return Action{.kind = ActionKind::kRequeue, .state = v1::RUN_QUEUED}; }},
    Rule{"mpirun not executed",
         [](Seen seen, Limits) { return seen.attempt == AttemptPhase::kNotExecuted; },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, v1::LAUNCH_FAILED, seen.retryable);
         }},

    // The pause before a restart. The incident of the last attempt is recorded, so its exit.json
    // is ignored unless it records success.
    Rule{"failed attempt still running",
         [](Seen seen, Limits) {
           return IsRestarting(seen) && (IsRunning(seen) || seen.attempt == AttemptPhase::kExited);
         },
         [](Seen, Limits) { return Do(ActionKind::kEndAttempt); }},
    Rule{"failed attempt had succeeded",
         [](Seen seen, Limits) { return IsRestarting(seen) && ExitSays(seen, kSucceeded); },
         [](Seen seen, Limits) {
           return Finish(v1::RUN_SUCCEEDED, absl::StrCat("finished after step ", seen.exit->step));
         }},
    Rule{"stop during the pause",
         [](Seen seen, Limits) { return IsSelf(seen) && IsRestarting(seen) && seen.stop_seconds; },
         [](Seen seen, Limits) { return Stop(seen, "stopped before the restart"); }},
    Rule{"pause",
         [](Seen seen, Limits) {
           return IsSelf(seen) && IsRestarting(seen) && seen.pause_seconds > 0;
         },
         [](Seen, Limits) { return Do(ActionKind::kWait); }},
    Rule{"pause is over", [](Seen seen, Limits) { return IsSelf(seen) && IsRestarting(seen); },
         [](Seen, Limits) { return Do(ActionKind::kStart); }},

    // A live attempt.
    Rule{"mpirun has exited",
         [](Seen seen, Limits) { return seen.attempt == AttemptPhase::kExited; },
         [](Seen, Limits) { return Do(ActionKind::kEndAttempt); }},
    Rule{"mpirun of an earlier supervisor",
         [](Seen seen, Limits) { return IsSelf(seen) && IsRunning(seen) && !seen.attached; },
         [](Seen, Limits) { return Do(ActionKind::kAttach); }},
    Rule{"trainer does not exit",
         [](Seen seen, Limits limits) {
           return IsRunning(seen) && seen.exit && seen.exit_seconds > limits.exit_grace_seconds;
         },
         [](Seen, Limits) { return Do(ActionKind::kEndAttempt); }},
    Rule{"stop is overdue",
         [](Seen seen, Limits limits) {
           return IsRunning(seen) &&
                  StopsFor(seen, limits.stop_grace_seconds + limits.kill_grace_seconds);
         },
         [](Seen, Limits) { return Do(ActionKind::kEndAttempt); }},
    Rule{"rank hangs", [](Seen seen, Limits) { return IsRunning(seen) && seen.hung && !seen.exit; },
         [](Seen, Limits) { return Do(ActionKind::kEndAttempt); }},
    // Only once: a second SIGTERM would make mpirun abandon its daemons on other hosts.
    Rule{"ranks do not stop",
         [](Seen seen, Limits limits) {
           return IsRunning(seen) && StopsFor(seen, limits.stop_grace_seconds) && !seen.terminated;
         },
         [](Seen, Limits) { return Do(ActionKind::kTerminate); }},
    Rule{"stop",
         [](Seen seen, Limits limits) {
           return IsRunning(seen) && seen.stop_seconds &&
                  !StopsFor(seen, limits.stop_grace_seconds);
         },
         [](Seen, Limits) { return Do(ActionKind::kSignalRanks); }},
    Rule{"attempt runs", [](Seen seen, Limits) { return IsRunning(seen); },
         [](Seen, Limits) { return Do(ActionKind::kWatch); }},
    // Ranks elsewhere read stop.json too, and get the same time to stop as those on this machine.
    Rule{"attempt may run elsewhere",
         [](Seen seen, Limits limits) {
           const double patience = seen.stop_seconds
                                       ? limits.stop_grace_seconds + limits.kill_grace_seconds
                                       : limits.silence_seconds;
           return seen.attempt == AttemptPhase::kUnseen && seen.unseen_seconds <= patience;
         },
         [](Seen, Limits) { return Do(ActionKind::kWait); }},

    // The attempt is over, or is fenced off by the next one. If it had not begun, exit.json is that
    // of the attempt before, so these two rules precede those that interpret it.
    Rule{"stop before the attempt began",
         [](Seen seen, Limits) { return !seen.begun && seen.stop_seconds; },
         [](Seen seen, Limits) { return Stop(seen, "stopped before the start"); }},
    Rule{"attempt had not begun", [](Seen seen, Limits) { return !seen.begun; },
         [](Seen, Limits) { return Do(ActionKind::kStart); }},
    Rule{"trainer succeeded", [](Seen seen, Limits) { return ExitSays(seen, kSucceeded); },
         [](Seen seen, Limits) {
           return Finish(v1::RUN_SUCCEEDED, absl::StrCat("finished after step ", seen.exit->step));
         }},
    // An exit record clears `hung` until the attempt is ended. One that says stopped or failed was
    // therefore written after the hang was found, and is not its cause.
    Rule{"attempt was ended for a hang", [](Seen seen, Limits) { return seen.hung; },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, seen.reported ? v1::RANK_HUNG : v1::LAUNCH_FAILED, true);
         }},
    Rule{"trainer stopped", [](Seen seen, Limits) { return ExitSays(seen, kStopped); },
         [](Seen seen, Limits) {
           return Stop(seen, absl::StrCat("stopped after step ", seen.exit->step));
         }},
    // A restart would undo the stop, so the failure is only mentioned.
    Rule{"trainer failed while stopping",
         [](Seen seen, Limits) { return seen.exit && seen.stop_seconds; },
         [](Seen seen, Limits) { return Stop(seen, "stopped; " + ErrorOf(*seen.exit)); }},
    Rule{"trainer failed", [](Seen seen, Limits) { return seen.exit.has_value(); },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, v1::TRAINER_FAILED, seen.exit->retryable, ErrorOf(*seen.exit));
         }},
    Rule{"stop without a result", [](Seen seen, Limits) { return seen.stop_seconds.has_value(); },
         [](Seen seen, Limits) { return Stop(seen, "stopped without a new checkpoint"); }},
    Rule{"trainer died", [](Seen seen, Limits) { return seen.attached; },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, seen.reported ? v1::TRAINER_DIED : v1::LAUNCH_FAILED,
                       seen.retryable);
         }},
    Rule{"run is lost", [](Seen, Limits) { return true; },
         [](Seen seen, Limits limits) {
           return Fail(seen, limits, v1::LOST, true,
                       IsSelf(seen)
                           ? "run lost: mpirun and its supervisor exited without writing exit.json "
                             "(possibly a host reboot)"
                           : "run lost: its supervisor is on another machine and no rank has sent "
                             "a heartbeat for a while; resume it to restart it");
         }},
};

}  // namespace

Action Decide(const Observation& seen, const DecisionLimits& limits) {
  for (const Rule& rule : kRules) {
    if (!rule.applies(seen, limits)) continue;
    Action action = rule.act(seen, limits);
    action.rule = rule.name;
    return action;
  }
  return {};  // not reached: the last rule always applies
}

std::span<const std::string_view> DecisionRules() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kRules.size()> names;
    for (size_t i = 0; i < kRules.size(); ++i) names[i] = kRules[i].name;
    return names;
  }();
  return kNames;
}

Conclusion Conclude(const Observation& seen, const DecisionLimits& limits) {
  Observation now = seen;
  Action action = Decide(now, limits);
  // No supervisor has taken over the launch in time, so the state is derived from the files alone.
  if (action.kind == ActionKind::kSupervise && HasNoEvent(seen) &&
      !(IsGone(seen) && seen.launch_seconds &&
        *seen.launch_seconds < limits.launch_grace_seconds)) {
    now.attendance = Attendance::kAbandoned;
    action = Decide(now, limits);
  }
  // A reader ends nothing. It derives what the supervisor records after it has ended the attempt.
  if (action.kind == ActionKind::kEndAttempt) {
    now.attempt = AttemptPhase::kGone;
    action = Decide(now, limits);
  }
  if (action.kind == ActionKind::kFinish || action.kind == ActionKind::kFail) {
    return {action.state, action, false};
  }
  const bool finished = seen.recorded == v1::RUN_SUCCEEDED;
  if (seen.new_launch && !finished) return {v1::RUN_STARTING, action, false};
  if (!HasNoEvent(seen)) return {seen.recorded, action, true};
  const bool runs = IsRunning(now) && seen.reported;
  return {runs ? v1::RUN_RUNNING : v1::RUN_STARTING, action, false};
}

}  // namespace braid
