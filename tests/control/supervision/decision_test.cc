// Every rule of Decide, each with an observation that only this rule decides.
#include "control/supervision/decision.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "control/supervision/restart_policy.h"

namespace braid {
namespace decision_test {

using testing::HasSubstr;

// The limits of the table: 60 s and 15 s of grace, three restarts that begin with a pause of 2 s.
DecisionLimits Limits() {
  DecisionLimits limits;
  limits.supervision.set_max_restarts(3);
  limits.supervision.set_backoff_seconds(2);
  return limits;
}

ExitRecord Exit(std::string_view outcome, bool retryable = true) {
  return {std::string(outcome), outcome == kFailed ? "loss is not finite" : "", 42, "", retryable};
}

// Observations that rows modify.
Observation Self(v1::RunState recorded, AttemptPhase attempt = AttemptPhase::kGone) {
  Observation seen;
  seen.recorded = recorded;
  seen.attempt = attempt;
  seen.attached = attempt == AttemptPhase::kRunning || attempt == AttemptPhase::kExited;
  return seen;
}
// An attempt that was followed to its end.
Observation Ended(v1::RunState recorded = v1::RUN_RUNNING) {
  Observation seen = Self(recorded);
  seen.attached = true;
  seen.reported = recorded == v1::RUN_RUNNING;
  return seen;
}
Observation Reader(Attendance attendance, v1::RunState recorded,
                   AttemptPhase attempt = AttemptPhase::kGone) {
  Observation seen;
  seen.attendance = attendance;
  seen.recorded = recorded;
  seen.attempt = attempt;
  seen.attached = recorded == v1::RUN_STATE_UNSPECIFIED;
  return seen;
}

template <class Change>
Observation With(Observation seen, Change change) {
  change(seen);
  return seen;
}

struct Row {
  std::string_view rule;
  Observation seen;
  ActionKind kind;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  v1::IncidentKind incident = v1::INCIDENT_KIND_UNSPECIFIED;
  double pause_seconds = 0;
};

using O = Observation;
constexpr auto kNone = v1::RUN_STATE_UNSPECIFIED;
constexpr auto kRuns = AttemptPhase::kRunning;

std::vector<Row> Rows() {
  return {
      {"run has ended", Self(v1::RUN_SUCCEEDED), ActionKind::kLeave},
      {"run has ended", Self(v1::RUN_STOPPED, kRuns), ActionKind::kLeave},
      {"run has ended", Reader(Attendance::kOrphaned, v1::RUN_FAILED), ActionKind::kLeave},

      {"run is orphaned", Reader(Attendance::kOrphaned, v1::RUN_RUNNING), ActionKind::kSupervise},
      {"run is orphaned", Reader(Attendance::kOrphaned, v1::RUN_RUNNING, kRuns),
       ActionKind::kSupervise},
      {"run is orphaned", Reader(Attendance::kOrphaned, kNone), ActionKind::kSupervise},
      {"run is orphaned",
       With(Reader(Attendance::kOrphaned, v1::RUN_STOPPED), [](O& o) { o.new_launch = true; }),
       ActionKind::kSupervise},
      {"another process is in charge", Reader(Attendance::kAttended, v1::RUN_RESTARTING),
       ActionKind::kLeave},
      {"another process is in charge", Reader(Attendance::kUnrecorded, v1::RUN_STARTING),
       ActionKind::kLeave},
      {"launch is in progress",
       With(Reader(Attendance::kUnrecorded, kNone), [](O& o) { o.launch_seconds = 29; }),
       ActionKind::kLeave},
      {"run was never started",
       With(Reader(Attendance::kUnrecorded, kNone), [](O& o) { o.launch_seconds = 31; }),
       ActionKind::kFail, v1::RUN_FAILED, v1::LAUNCH_FAILED},

      {"new launch", Self(kNone), ActionKind::kStart},
      {"new launch", Self(v1::RUN_QUEUED), ActionKind::kStart},
      {"new launch", With(Self(v1::RUN_STOPPED), [](O& o) { o.new_launch = true; }),
       ActionKind::kStart},
      {"job was queued again",
       With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.job_restarted = true; }),
       ActionKind::kRequeue, v1::RUN_QUEUED},
      {"mpirun not executed", Self(v1::RUN_STARTING, AttemptPhase::kNotExecuted), ActionKind::kFail,
       v1::RUN_RESTARTING, v1::LAUNCH_FAILED, 2},
      {"mpirun not executed",
       With(Self(v1::RUN_STARTING, AttemptPhase::kNotExecuted), [](O& o) { o.retryable = false; }),
       ActionKind::kFail, v1::RUN_FAILED, v1::LAUNCH_FAILED},

      {"failed attempt still running", Self(v1::RUN_RESTARTING, kRuns), ActionKind::kEndAttempt},
      {"failed attempt had succeeded",
       With(Self(v1::RUN_RESTARTING),
            [](O& o) {
              o.exit = Exit(kSucceeded);
              o.stop_seconds = 1;
            }),
       ActionKind::kFinish, v1::RUN_SUCCEEDED},
      {"stop during the pause",
       With(Self(v1::RUN_RESTARTING),
            [](O& o) {
              o.exit = Exit(kFailed);  // its incident is recorded
              o.stop_seconds = 1;
            }),
       ActionKind::kFinish, v1::RUN_STOPPED},
      {"pause", With(Self(v1::RUN_RESTARTING), [](O& o) { o.pause_seconds = 0.1; }),
       ActionKind::kWait},
      {"pause is over", Self(v1::RUN_RESTARTING), ActionKind::kStart},

      {"mpirun has exited", Self(v1::RUN_RUNNING, AttemptPhase::kExited), ActionKind::kEndAttempt},
      {"mpirun of an earlier supervisor",
       With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.attached = false; }), ActionKind::kAttach},
      {"trainer does not exit",
       With(Self(v1::RUN_RUNNING, kRuns),
            [](O& o) {
              o.exit = Exit(kSucceeded);
              o.exit_seconds = 16;
            }),
       ActionKind::kEndAttempt},
      {"stop is overdue", With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.stop_seconds = 75; }),
       ActionKind::kEndAttempt},
      {"rank hangs", With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.hung = true; }),
       ActionKind::kEndAttempt},
      {"ranks do not stop", With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.stop_seconds = 60; }),
       ActionKind::kTerminate},
      {"stop", With(Self(v1::RUN_RUNNING, kRuns), [](O& o) { o.stop_seconds = 59; }),
       ActionKind::kSignalRanks},
      {"attempt runs", Self(v1::RUN_RUNNING, kRuns), ActionKind::kWatch},
      {"attempt runs",
       With(Self(v1::RUN_RUNNING, kRuns),
            [](O& o) {  // it exits: silence is not a hang
              o.exit = Exit(kStopped);
              o.hung = true;
            }),
       ActionKind::kWatch},
      {"attempt runs",
       With(Self(v1::RUN_RUNNING, kRuns),
            [](O& o) {  // a second SIGTERM would make mpirun abandon its daemons
              o.stop_seconds = 61;
              o.terminated = true;
            }),
       ActionKind::kWatch},
      {"attempt may run elsewhere",
       With(Self(v1::RUN_RUNNING, AttemptPhase::kUnseen), [](O& o) { o.unseen_seconds = 299; }),
       ActionKind::kWait},

      {"stop before the attempt began",
       With(Self(v1::RUN_STARTING),
            [](O& o) {
              o.begun = false;
              o.stop_seconds = 0;
            }),
       ActionKind::kFinish, v1::RUN_STOPPED},
      {"attempt had not begun",
       With(Self(v1::RUN_STARTING),
            [](O& o) {
              o.begun = false;
              o.exit = Exit(kFailed);  // the exit of the attempt before
            }),
       ActionKind::kStart},
      {"trainer succeeded",
       With(Ended(),
            [](O& o) {
              o.exit = Exit(kSucceeded);
              o.hung = true;
              o.stop_seconds = 1;
            }),
       ActionKind::kFinish, v1::RUN_SUCCEEDED},
      {"attempt was ended for a hang", With(Ended(), [](O& o) { o.hung = true; }),
       ActionKind::kFail, v1::RUN_RESTARTING, v1::RANK_HUNG, 2},
      {"attempt was ended for a hang", With(Ended(v1::RUN_STARTING), [](O& o) { o.hung = true; }),
       ActionKind::kFail, v1::RUN_RESTARTING, v1::LAUNCH_FAILED, 2},
      {"trainer stopped", With(Ended(), [](O& o) { o.exit = Exit(kStopped); }), ActionKind::kFinish,
       v1::RUN_STOPPED},
      {"trainer stopped",
       With(Ended(),
            [](O& o) {
              o.exit = Exit(kStopped);
              o.requeued = true;
            }),
       ActionKind::kFinish, v1::RUN_QUEUED},
      {"trainer failed while stopping",
       With(Ended(),
            [](O& o) {
              o.exit = Exit(kFailed);
              o.stop_seconds = 3;
            }),
       ActionKind::kFinish, v1::RUN_STOPPED},
      {"trainer succeeded",
       With(Ended(),
            [](O& o) {
              o.exit = Exit(kSucceeded);
              o.job_restarted = o.requeued = true;
              o.stop_seconds = 1;
            }),
       ActionKind::kFinish, v1::RUN_SUCCEEDED},
      {"run has ended", With(Self(v1::RUN_SUCCEEDED), [](O& o) { o.new_launch = true; }),
       ActionKind::kLeave},
      {"trainer failed", With(Ended(), [](O& o) { o.exit = Exit(kFailed); }), ActionKind::kFail,
       v1::RUN_RESTARTING, v1::TRAINER_FAILED, 2},
      {"trainer failed", With(Ended(), [](O& o) { o.exit = Exit(kFailed, false); }),
       ActionKind::kFail, v1::RUN_FAILED, v1::TRAINER_FAILED},
      {"stop without a result", With(Ended(), [](O& o) { o.stop_seconds = 76; }),
       ActionKind::kFinish, v1::RUN_STOPPED},
      {"stop without a result",
       With(Ended(),
            [](O& o) {
              o.stop_seconds = 2;
              o.requeued = true;
            }),
       ActionKind::kFinish, v1::RUN_QUEUED},
      {"trainer died", Ended(), ActionKind::kFail, v1::RUN_RESTARTING, v1::TRAINER_DIED, 2},
      {"trainer died", Ended(v1::RUN_STARTING), ActionKind::kFail, v1::RUN_RESTARTING,
       v1::LAUNCH_FAILED, 2},
      {"trainer died", With(Ended(), [](O& o) { o.restarts = 3; }), ActionKind::kFail,
       v1::RUN_FAILED, v1::TRAINER_DIED},
      {"run is lost", With(Self(v1::RUN_RUNNING), [](O& o) { o.restarts = 1; }), ActionKind::kFail,
       v1::RUN_RESTARTING, v1::LOST, 4},
      {"run is lost",
       With(Self(v1::RUN_RUNNING, AttemptPhase::kUnseen), [](O& o) { o.unseen_seconds = 301; }),
       ActionKind::kFail, v1::RUN_RESTARTING, v1::LOST, 2},
      {"run is lost", Reader(Attendance::kAbandoned, v1::RUN_RESTARTING), ActionKind::kFail,
       v1::RUN_FAILED, v1::LOST},
  };
}

TEST(DecideTest, EveryRowOfTheTable) {
  std::set<std::string_view> tested;
  int number = 0;
  for (const Row& row : Rows()) {
    SCOPED_TRACE(testing::Message() << "row " << number++ << ", " << row.rule);
    const Action action = Decide(row.seen, Limits());
    EXPECT_EQ(action.rule, row.rule);
    EXPECT_EQ(action.kind, row.kind);
    EXPECT_EQ(action.state, row.state);
    EXPECT_EQ(action.incident, row.incident);
    EXPECT_DOUBLE_EQ(action.pause_seconds, row.pause_seconds);
    tested.insert(row.rule);
  }
  for (const std::string_view rule : DecisionRules()) {
    EXPECT_TRUE(tested.contains(rule)) << "no row for the rule: " << rule;
  }
}

TEST(DecideTest, AStopShortensTheWaitForAnAttemptThatCannotBeSeen) {
  Observation seen = Self(v1::RUN_RUNNING, AttemptPhase::kUnseen);
  seen.stop_seconds = seen.unseen_seconds = 75;
  EXPECT_EQ(Decide(seen, Limits()).kind, ActionKind::kWait);
  seen.unseen_seconds = 76;
  EXPECT_EQ(Decide(seen, Limits()).state, v1::RUN_STOPPED);
}

// Sampled over all fields: an end that the event log would refuse, or a reader that acts, is a bug
// whatever the observation.
TEST(DecideTest, NoObservationLeadsAReaderToAct) {
  int count = 0;
  for (int bits = 0; bits < 1 << 10; ++bits) {
    for (int state = v1::RUN_STATE_UNSPECIFIED; state <= v1::RunState_MAX; ++state) {
      for (int attendance = 1; attendance <= 4; ++attendance) {
        if (!v1::RunState_IsValid(state)) continue;
        Observation seen;
        seen.recorded = static_cast<v1::RunState>(state);
        seen.attendance = static_cast<Attendance>(attendance);
        seen.attempt = bits & 1 ? kRuns : AttemptPhase::kGone;
        seen.attached = bits & 2;
        seen.reported = bits & 4;
        seen.new_launch = bits & 8;
        if (bits & 16) seen.launch_seconds = 1;
        if (bits & 32) seen.exit = Exit(bits & 64 ? kFailed : kSucceeded);
        if (bits & 128) seen.exit_seconds = 100;
        if (bits & 256) seen.stop_seconds = 0;
        if (bits & 512) seen.launch_seconds = 100;
        const Action action = Decide(seen, Limits());
        EXPECT_NE(action.kind, ActionKind::kStart) << action.rule;
        EXPECT_NE(action.kind, ActionKind::kAttach) << action.rule;
        EXPECT_NE(action.state, v1::RUN_RESTARTING) << action.rule;
        EXPECT_NE(Conclude(seen).state, v1::RUN_STATE_UNSPECIFIED) << action.rule;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 1000);
}

TEST(ConcludeTest, RecordedStateStandsWhileASupervisorIsOrWillBeInCharge) {
  for (const Attendance attendance :
       {Attendance::kAttended, Attendance::kOrphaned, Attendance::kUnrecorded}) {
    const Conclusion conclusion = Conclude(Reader(attendance, v1::RUN_RUNNING));
    EXPECT_EQ(conclusion.state, v1::RUN_RUNNING);
    EXPECT_TRUE(conclusion.is_recorded);
  }
  EXPECT_TRUE(Conclude(Reader(Attendance::kAbandoned, v1::RUN_STOPPED)).is_recorded);
}

TEST(ConcludeTest, ResumedRunStartsBeforeItsFirstEvent) {
  for (const Attendance attendance : {Attendance::kAttended, Attendance::kOrphaned}) {
    Observation seen = Reader(attendance, v1::RUN_FAILED);
    seen.new_launch = true;
    EXPECT_EQ(Conclude(seen).state, v1::RUN_STARTING);
  }
}

// "cannot go from RUN_SUCCEEDED to RUN_STARTING": a requeued job of a run that has finished.
TEST(ConcludeTest, FinishedRunStaysFinished) {
  for (const Attendance attendance : {Attendance::kAttended, Attendance::kOrphaned}) {
    Observation seen = Reader(attendance, v1::RUN_SUCCEEDED);
    seen.new_launch = true;
    EXPECT_EQ(Conclude(seen).state, v1::RUN_SUCCEEDED);
    EXPECT_TRUE(Conclude(seen).is_recorded);
  }
}

TEST(ConcludeTest, SaysWhatHappensToARunWithoutASupervisor) {
  EXPECT_THAT(Conclude(Reader(Attendance::kOrphaned, v1::RUN_RUNNING)).action.message,
              HasSubstr("all of its processes have exited; braid restarts it"));
  EXPECT_THAT(Conclude(Reader(Attendance::kOrphaned, v1::RUN_RUNNING, kRuns)).action.message,
              HasSubstr("training continues"));
  EXPECT_EQ(Conclude(Reader(Attendance::kAttended, v1::RUN_RUNNING)).action.message, "");
}

TEST(ConcludeTest, AbandonedRunEndsAsItsSupervisorWouldHaveRecorded) {
  Observation seen = Reader(Attendance::kAbandoned, v1::RUN_RUNNING);
  EXPECT_EQ(Conclude(seen).state, v1::RUN_FAILED);
  EXPECT_THAT(Conclude(seen).action.message, HasSubstr("another machine"));
  seen.exit = Exit(kSucceeded);
  EXPECT_EQ(Conclude(seen).state, v1::RUN_SUCCEEDED);
  seen.exit = Exit(kFailed);
  EXPECT_EQ(Conclude(seen).state, v1::RUN_FAILED);
  EXPECT_EQ(Conclude(seen).action.message, "loss is not finite");
}

TEST(ConcludeTest, LaunchThatNoSupervisorTookUpFailsAfterAWhile) {
  Observation seen = Reader(Attendance::kOrphaned, kNone);
  seen.launch_seconds = 29;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_STARTING);
  seen.launch_seconds = 31;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_FAILED);
  EXPECT_EQ(Conclude(seen).action.message, "") << "the log explains it";
  seen.stop_seconds = 0;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_STOPPED);
}

TEST(ConcludeTest, RunWithoutASupervisorRunsOnceARankHasReported) {
  Observation seen = Reader(Attendance::kAttended, kNone, kRuns);
  EXPECT_EQ(Conclude(seen).state, v1::RUN_STARTING);
  seen.reported = true;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_RUNNING);
  seen.exit = Exit(kSucceeded);
  seen.exit_seconds = 10;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_RUNNING) << "the trainer may take a while to exit";
  seen.exit_seconds = 16;
  EXPECT_EQ(Conclude(seen).state, v1::RUN_SUCCEEDED);
}

}  // namespace decision_test
}  // namespace braid
