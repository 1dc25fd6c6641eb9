#include "control/supervision/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "control/supervision/attempt_end.h"
#include "control/supervision/attempt_files.h"
#include "control/supervision/observe_run.h"
#include "control/supervision/run_process.h"
#include "runs/checkpoint_directory.h"
#include "runs/process_identity.h"
#include "runs/run_spec.h"
#include "runs/run_state.h"
#include "runs/step_remark.h"

namespace braid {
namespace {

// Pause between two iterations of Run.
constexpr double kPauseSeconds = 0.05;
// The same while an attempt cannot be seen: each iteration then reads all heartbeats, perhaps from
// a file server.
constexpr double kUnseenPauseSeconds = 0.2;
// Maximum time that the end of a job waits for the scheduler's answer about it.
constexpr std::chrono::seconds kJobEndPatience(10);
// Longest time between two iterations that counts against the grace of a stop. If it was longer,
// this process was stopped, or its machine slept, and the ranks were probably stopped as well.
constexpr double kLongestPauseSeconds = 1;
// Twice the period in which ranks look at attempt.json.
constexpr double kFenceSeconds = 2;
constexpr size_t kRecentSteps = 100;
constexpr int64_t kEventsPerRead = 1000;

bool IsSame(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot_id == b.boot_id &&
         a.pid_namespace == b.pid_namespace;
}

// A missing program or a launch.json that cannot be parsed would fail in the same way again.
bool MayStartLater(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) && !absl::IsNotFound(status) &&
         !absl::IsDataLoss(status);
}

// Ranks on other machines may outlive the attempt before; they get the time to read attempt.json
// and to end themselves. Those on this machine are known to be gone.
double FenceSeconds(const RunDirectory& run) {
  const std::string own = HostName();
  const std::vector<v1::Heartbeat> beats = run.ReadHeartbeats();
  const bool elsewhere =
      std::any_of(beats.begin(), beats.end(), [&](const auto& beat) { return beat.host() != own; });
  return elsewhere ? kFenceSeconds : 0;
}

// Returns the remaining seconds of the pause that `last` announced. They are never more than the
// whole pause, since the clock may have been set back.
double RestOfPause(const v1::RunIncident& last) {
  const double left = last.time() + last.restart_after_seconds() - UnixTime();
  return std::clamp(left, 0.0, last.restart_after_seconds());
}

// Returns true if the newest launch has recorded an event and has not ended.
bool IsActive(v1::RunState state) {
  return state != v1::RUN_STATE_UNSPECIFIED && state != v1::RUN_QUEUED && !HasEnded(state);
}

v1::RunEvent SlowRankEvent(const v1::SlowRank& slow) {
  v1::RunEvent event;
  event.set_message(absl::StrCat("rank ", slow.rank(), " on ", slow.host(),
                                 slow.recovered() ? " has recovered: it takes " : " takes ",
                                 std::round(slow.ratio() * 100) / 100,
                                 " times as long for its own work as the median rank"));
  *event.mutable_slow_rank() = slow;
  return event;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Open(const RunDirectory& run,
                                                             const SupervisorOptions& options) {
  ASSIGN_OR_RETURN(v1::RunSpec spec, run.ReadSpec());
  RETURN_IF_ERROR(FillSupervision(spec.mutable_supervision()));
  // Before the journal, which has one writer: opening it removes a last line that is incomplete.
  ASSIGN_OR_RETURN(FileLock lock, TakeSupervisorLock(run));
  auto supervisor = absl::WrapUnique(new Supervisor(run, options, std::move(lock)));
  supervisor->spec_ = std::move(spec);
  ASSIGN_OR_RETURN(supervisor->journal_, RunJournal::Open(run, options.write_patience_seconds));
  const RunHistory& history = supervisor->journal_->history();
  supervisor->job_restarted_ = options.job.restarted && IsActive(supervisor->journal_->state());
  supervisor->new_launch_ =
      !options.reattach || HasNewLaunch(ReadProcessRecord(run.process()), history.nonce);
  supervisor->steps_ = std::make_unique<MetricsFollower>(run.metrics(), history.newest_step);
  for (const v1::StepMetrics& step : run.ReadRecentMetrics(kRecentSteps)) {
    // FollowSteps adds the later ones when it records them.
    if (step.step() <= history.newest_step) supervisor->step_times_.Add(step);
  }
  return supervisor;
}

absl::StatusOr<v1::RunState> Supervisor::Run(const std::function<StopSignal()>& stop_signal) {
  FindAttempt();
  // Decided before Claim writes process.json: a run that has ended stays as it is.
  if (Decide(Observe(), Limits()).kind == ActionKind::kLeave) return journal_->state();
  RETURN_IF_ERROR(Claim());
  do {
    TakeSignal(stop_signal());
    // What an attempt has done is recorded before Act can record its end.
    RETURN_IF_ERROR(FollowSteps());
    RETURN_IF_ERROR(FollowHeartbeats());
    RETURN_IF_ERROR(Act(Decide(Observe(), Limits())));
    journal_->SaveNowAndThen();
    SleepSeconds(unseen_since_ ? kUnseenPauseSeconds : kPauseSeconds);
  } while (!finished_ && !HasEnded(journal_->state()));
  journal_->Close();
  return journal_->state();
}

// A request that cannot be recorded, as on a full disk, is recorded in a later iteration.
void Supervisor::TakeSignal(StopSignal signal) {
  if (signal == StopSignal::kNone) return;
  const SchedulerJob& job = options_.job;
  std::string reason;
  if (!job.name.empty()) {
    reason = job.name + (signal == StopSignal::kTimeLimit ? " reaches its time limit" : " ended");
  }
  journal_->LogError(RecordStopRequest(run_, UnixTime(), reason));
  // The scheduler is asked in a thread, because the ranks must stop at once.
  if (signal == StopSignal::kStop && job.ask_end && !job_end_.valid()) {
    job_end_ = std::async(std::launch::async, job.ask_end).share();
  }
}

// A launcher has recorded this process before it executed it; a scheduler, or a process that
// restarts the supervisor, has not. The nonce remains that of the launch, so that a request to stop
// the launch still holds. Only a launch without a launcher, by hand or by a scheduler, gets a new
// one.
absl::Status Supervisor::Claim() {
  const absl::StatusOr<ProcessRecord> known = ReadProcessRecord(run_.process());
  ASSIGN_OR_RETURN(const ProcessIdentity self, IdentifyProcess(getpid()));
  const bool recorded = known.ok() && IsSame(known->identity, self);
  const bool unknown = !known.ok() || (!recorded && HasEnded(journal_->state()) &&
                                       !HasNewLaunch(known, journal_->history().nonce));
  const std::string nonce = unknown ? NewNonce() : known->nonce;
  journal_->SetNonce(nonce);
  // The scheduler's request to stop was for the job before.
  const std::optional<StopRequest> stop = ReadStopRequest(run_);
  if (options_.job.restarted && stop && !stop->reason.empty()) RemoveStopRequest(run_);
  if (recorded) return absl::OkStatus();
  return WriteProcessRecord(run_.process(), {self, nonce, UnixTime()});
}

// Finds what an earlier supervisor of this launch has left: a live mpirun, or a pause.
void Supervisor::FindAttempt() {
  const v1::RunState state = journal_->state();
  if (!IsActive(state)) return;
  if (std::optional<AttemptProcess> process = AttemptProcess::Find(run_)) {
    Follow(*std::move(process));
  }
  const auto& incidents = journal_->history().run.incidents();
  if (state == v1::RUN_RESTARTING && !incidents.empty()) {
    restart_at_ = SteadySeconds() + RestOfPause(*incidents.rbegin());
  }
}

Observation Supervisor::Observe() {
  Observation seen;
  const double now = SteadySeconds();
  seen.recorded = journal_->state();
  seen.new_launch = new_launch_;
  if (!not_executed_.ok()) {
    seen.attempt = AttemptPhase::kNotExecuted;
    seen.retryable = MayStartLater(not_executed_);
  } else if (attempt_) {
    attempt_->Observe(&seen);
  } else {
    // An attempt that has failed is not waited for; the next one fences it off.
    const bool restarting = seen.recorded == v1::RUN_RESTARTING;
    if (!restarting && HasLiveAttempt(run_, UnixTime())) seen.attempt = AttemptPhase::kUnseen;
    seen.exit = ExitOfAttempt(run_);
    seen.begun =
        seen.recorded != v1::RUN_STARTING || HasBegunAttempt(run_, journal_->last_number());
  }
  if (seen.attempt == AttemptPhase::kUnseen) {
    if (!unseen_since_) unseen_since_ = now;
    seen.unseen_seconds = now - *unseen_since_;
  } else {
    unseen_since_.reset();
  }
  seen.job_restarted = job_restarted_;
  seen.pause_seconds = restart_at_ - now;
  // A failure can only be the decision where nothing is left to run or to wait for.
  const bool over = seen.attempt != AttemptPhase::kRunning && seen.attempt != AttemptPhase::kExited;
  if (over && IsActive(seen.recorded) && seen.recorded != v1::RUN_RESTARTING) {
    seen.restarts = journal_->history().RestartsBefore(NewestCheckpointStep(run_.checkpoints()));
  }
  ObserveStop(&seen);
  return seen;
}

// The request is counted from when it was seen: another machine's clock may have written it. Where
// the job ends, the state of the run depends on what the scheduler does next.
void Supervisor::ObserveStop(Observation* seen) {
  const std::optional<StopRequest> stop = ReadStopRequest(run_);
  const double now = SteadySeconds();
  const double pause = now - std::exchange(stop_looked_at_, now);
  if (!stop) return stop_seconds_.reset();
  stop_seconds_ = stop_seconds_ ? *stop_seconds_ + std::min(pause, kLongestPauseSeconds) : 0;
  seen->stop_seconds = stop_seconds_;
  seen->stop_reason = stop->reason;
  if (!job_end_.valid() || stop->reason.empty()) return;
  const bool over =
      seen->attempt != AttemptPhase::kRunning && seen->attempt != AttemptPhase::kExited;
  const auto patience = over ? kJobEndPatience : std::chrono::seconds(0);
  if (job_end_.wait_for(patience) != std::future_status::ready) return;
  seen->requeued = job_end_.get().requeued;
  seen->stop_reason = job_end_.get().cause;
}

DecisionLimits Supervisor::Limits() const {
  return {.stop_grace_seconds = options_.stop_grace_seconds,
          .kill_grace_seconds = options_.kill_grace_seconds,
          .silence_seconds = options_.limits.launch_seconds,
          .supervision = spec_.supervision()};
}

absl::Status Supervisor::Act(const Action& action) {
  switch (action.kind) {
    case ActionKind::kLeave:
    case ActionKind::kSupervise:
    case ActionKind::kWatch:
    case ActionKind::kWait:
      return absl::OkStatus();
    case ActionKind::kRequeue:
      return Requeue();
    case ActionKind::kStart:
      return StartAttempt();
    case ActionKind::kAttach:
      attempt_->Attach();
      return journal_->Record(journal_->state(),
                              "supervisor restarted; re-attached to the running mpirun");
    // mpirun answers SIGTERM by killing its ranks before they have saved a checkpoint: the ranks
    // are asked first, by stop.json everywhere and by a signal on this machine.
    case ActionKind::kSignalRanks:
      return attempt_->SignalRanks();
    case ActionKind::kTerminate:
      attempt_->Terminate();
      return absl::OkStatus();
    case ActionKind::kEndAttempt:
      attempt_->End();
      // No rank is left, so this is the last that the attempt reports.
      RETURN_IF_ERROR(RecordFirstReport());
      return FollowSteps();
    case ActionKind::kFinish:
      finished_ = true;
      return journal_->Record(action.state, action.message);
    case ActionKind::kFail:
      return RecordFailure(action);
  }
  return absl::OkStatus();
}

// Steps belong to an attempt: none is recorded before the event that starts the first one.
absl::Status Supervisor::FollowSteps() {
  if (!IsActive(journal_->state())) return absl::OkStatus();
  absl::StatusOr<std::vector<v1::RunEvent>> events = steps_->Next(kEventsPerRead);
  while (events.ok() && !events->empty()) {
    // Steps can be complete before the first heartbeat is read.
    if (attempt_ && attempt_->attached() && journal_->state() == v1::RUN_STARTING) {
      RETURN_IF_ERROR(journal_->Record(v1::RUN_RUNNING, "the first rank reports"));
    }
    for (v1::RunEvent& event : *events) {
      step_times_.Add(event.metrics());
      if (attempt_) attempt_->SawStep();
      event.set_message(StepRemark(event.metrics()));
      RETURN_IF_ERROR(journal_->Append(std::move(event)));
    }
    events = steps_->Next(kEventsPerRead);
  }
  // A damaged line costs its own event, not the run; the next iteration reads what follows it.
  journal_->LogError(events.status());
  return absl::OkStatus();
}

absl::Status Supervisor::FollowHeartbeats() {
  if (!attempt_) return absl::OkStatus();
  const std::vector<v1::SlowRank> slow =
      attempt_->FollowHeartbeats(step_times_.HangLimit(spec_.supervision()));
  RETURN_IF_ERROR(RecordFirstReport());
  for (const v1::SlowRank& rank : slow) RETURN_IF_ERROR(journal_->Append(SlowRankEvent(rank)));
  return absl::OkStatus();
}

absl::Status Supervisor::RecordFirstReport() {
  if (journal_->state() != v1::RUN_STARTING || !attempt_->reported()) return absl::OkStatus();
  return journal_->Record(v1::RUN_RUNNING, "the first rank reports");
}

// Records that the job was queued again: the last job and all of its processes were ended before
// its supervisor could record it.
absl::Status Supervisor::Requeue() {
  if (attempt_) attempt_->End();
  attempt_.reset();
  job_restarted_ = false;
  return journal_->Record(
      v1::RUN_QUEUED, absl::StrCat(options_.job.name, " was queued again and has started again"));
}

// Records the start of an attempt, then starts it: an attempt that no event announces never runs.
absl::Status Supervisor::StartAttempt() {
  // A supervisor that died between the event and attempt.json has announced this attempt already.
  const bool announced = journal_->state() == v1::RUN_STARTING;
  const int32_t attempt_number = journal_->history().run.attempts() + (announced ? 0 : 1);
  new_launch_ = false;
  attempt_.reset();
  RETURN_IF_ERROR(journal_->Record(v1::RUN_STARTING,
                                   absl::StrCat("attempt ", attempt_number, " starts from step ",
                                                NewestCheckpointStep(run_.checkpoints()))));
  absl::StatusOr<AttemptProcess> process = LaunchAttempt();
  // This is an incident of the run, not an error of the supervisor: the next decision records it.
  not_executed_ = process.status();
  if (!process.ok()) return absl::OkStatus();
  Follow(*std::move(process));
  attempt_->Attach();
  return absl::OkStatus();
}

absl::StatusOr<AttemptProcess> Supervisor::LaunchAttempt() {
  ASSIGN_OR_RETURN(const LaunchCommand command, ReadLaunchCommand(run_));
  const std::string nonce = NewNonce();
  // All attempts append to trainer.log; DescribeEnd reads what follows the newest marker.
  std::ofstream(run_.log(), std::ios::app) << AttemptMarker(nonce);
  return AttemptProcess::Start(run_, command, nonce, UnixTime(), FenceSeconds(run_));
}

void Supervisor::Follow(AttemptProcess process) {
  WatchLimits limits = options_.limits;
  // Before the first step of a run it is not known how long a step takes.
  if (step_times_.empty()) {
    limits.first_step_seconds = std::max(limits.first_step_seconds, limits.long_phase_seconds);
  }
  attempt_.emplace(run_, spec_, std::move(process), limits);
}

absl::Status Supervisor::RecordFailure(const Action& action) {
  v1::RunIncident incident;
  incident.set_time(UnixTime());
  incident.set_kind(action.incident);
  incident.set_cause(action.message);
  if (!not_executed_.ok()) {
    incident.set_cause(std::string(not_executed_.message()));
  } else if (action.message.empty() && attempt_) {
    attempt_->AddCause(&incident);
  }
  incident.set_attempt(journal_->history().run.attempts());
  incident.set_step(journal_->history().newest_step);
  incident.set_resumed_step(NewestCheckpointStep(run_.checkpoints()));
  incident.set_restart_after_seconds(action.pause_seconds);
  v1::RunEvent event;
  event.set_state(action.state);
  event.set_message(
      action.state == v1::RUN_RESTARTING
          ? incident.cause()
          : DescribeFailures(journal_->history().run.incidents(), incident,
                             journal_->history().RestartsBefore(incident.resumed_step())));
  *event.mutable_incident() = std::move(incident);
  restart_at_ = SteadySeconds() + action.pause_seconds;
  attempt_.reset();
  not_executed_ = absl::OkStatus();
  return journal_->Append(std::move(event));
}

}  // namespace braid
