#include "control/supervision/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "control/supervision/adoption.h"
#include "control/supervision/attempt_end.h"
#include "control/supervision/attempt_files.h"
#include "control/supervision/rank_hosts.h"
#include "control/supervision/restart_policy.h"
#include "control/supervision/run_process.h"
#include "runs/run_spec.h"
#include "runs/run_state.h"

namespace braid {
namespace {

constexpr double kTurnSeconds = 0.05;
// Between two looks at the heartbeats; the longer the more a look costs.
constexpr double kShortestLookSeconds = 0.2;
constexpr double kLongestLookSeconds = 1;
constexpr double kLookCostRatio = 5;
// A trainer that has written exit.json but hangs while ending is not waited for.
constexpr double kExitGraceSeconds = 15;
// Twice the period in which ranks look at attempt.json.
constexpr double kFenceSeconds = 2;
constexpr double kProbeSeconds = 1.5;
constexpr size_t kRecentSteps = 100;
constexpr int64_t kEventsPerRead = 1000;

bool IsSame(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot_id == b.boot_id &&
         a.pid_namespace == b.pid_namespace;
}

// Unless the same would happen: a program that is missing, a launch.json that is none.
bool MayStartLater(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) && !absl::IsNotFound(status) &&
         !absl::IsDataLoss(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Open(const RunDirectory& run,
                                                             const SupervisorOptions& options) {
  ASSIGN_OR_RETURN(v1::RunSpec spec, run.ReadSpec());
  RETURN_IF_ERROR(FillSupervision(spec.mutable_supervision()));
  ASSIGN_OR_RETURN(FileLock lock, TakeSupervisorLock(run));
  auto supervisor = absl::WrapUnique(new Supervisor(run, options, std::move(lock)));
  supervisor->spec_ = std::move(spec);
  ASSIGN_OR_RETURN(supervisor->journal_, RunJournal::Open(run, options.write_patience_seconds));
  const int64_t newest_step = supervisor->journal_->history().newest_step;
  supervisor->steps_ = std::make_unique<MetricsFollower>(run.metrics(), newest_step);
  for (const v1::StepMetrics& step : run.ReadRecentMetrics(kRecentSteps)) {
    if (step.step() <= newest_step) supervisor->AddStepTime(step);
  }
  return supervisor;
}

absl::StatusOr<v1::RunState> Supervisor::Run(const std::function<bool()>& stop_requested) {
  if (options_.adopt && HasEnded(journal_->state()) &&
      !IsLaunchedAnew(run_, journal_->history().nonce)) {
    return journal_->state();
  }
  RETURN_IF_ERROR(Claim());
  RETURN_IF_ERROR(Begin(stop_requested));
  while (!HasEnded(journal_->state())) {
    if (stop_requested()) RecordStop();
    RETURN_IF_ERROR(Turn());
    journal_->SaveNowAndThen();
    SleepSeconds(kTurnSeconds);
  }
  journal_->Close();
  return journal_->state();
}

// A launcher has recorded us already; a scheduler, or whoever adopts, has not. The nonce stays
// that of the launch, so that a request to stop it still holds.
absl::Status Supervisor::Claim() {
  const absl::StatusOr<ProcessRecord> known = ReadProcessRecord(run_.process());
  ASSIGN_OR_RETURN(const ProcessIdentity self, IdentifyProcess(getpid()));
  const bool recorded = known.ok() && IsSame(known->identity, self);
  const bool anew = !known.ok() || (!recorded && HasEnded(journal_->state()) &&
                                    !IsLaunchedAnew(run_, journal_->history().nonce));
  nonce_ = anew ? NewNonce() : known->nonce;
  journal_->SetNonce(nonce_);
  if (recorded) return absl::OkStatus();
  return WriteProcessRecord(run_.process(), {self, nonce_, UnixTime()});
}

// On a full disk it is tried again in the next turn.
void Supervisor::RecordStop() {
  const absl::Status status = RecordStopRequest(run_, UnixTime());
  if (!status.ok()) journal_->Complain(status);
}

absl::Status Supervisor::Begin(const std::function<bool()>& stop_requested) {
  const v1::RunState state = journal_->state();
  if (HasEnded(state) || state == v1::RUN_STATE_UNSPECIFIED || state == v1::RUN_QUEUED) {
    return StartAttempt();
  }
  std::optional<AttemptProcess> attempt = AttemptProcess::Adopt(run_);
  if (state == v1::RUN_RESTARTING) return GoOnRestarting(std::move(attempt));
  if (attempt) {
    Attach(*std::move(attempt));
    return journal_->Tell(state, "a new supervisor has taken the run over; it trains on");
  }
  RETURN_IF_ERROR(AwaitSilence(stop_requested));
  RETURN_IF_ERROR(FollowSteps());
  if (state == v1::RUN_STARTING && !HasBegunAttempt(run_, journal_->last_number())) {
    if (ReadStopRequest(run_))
      return journal_->Tell(v1::RUN_STOPPED, "stopped before it was started");
    return StartAttempt();
  }
  if (const std::optional<ExitRecord> exit = ExitOfAttempt(run_)) return EndAsExitSays(*exit);
  if (ReadStopRequest(run_))
    return journal_->Tell(v1::RUN_STOPPED, "stopped: its processes are gone");
  return Lost();
}

// The attempt of attempt.json has its incident already, whatever its exit.json says but for
// success. The rest of the pause is waited for in Turn.
absl::Status Supervisor::GoOnRestarting(std::optional<AttemptProcess> given_up) {
  if (given_up) {
    const absl::Status gone = given_up->End(run_);
    if (!gone.ok()) std::cerr << gone.message() << std::endl;
  }
  RETURN_IF_ERROR(FollowSteps());
  const std::optional<ExitRecord> exit = ExitOfAttempt(run_);
  if (exit && exit->outcome == kSucceeded) return EndAsExitSays(*exit);
  const auto& incidents = journal_->history().run.incidents();
  if (incidents.empty()) return absl::OkStatus();
  const v1::RunIncident& last = *incidents.rbegin();
  const double left = last.time() + last.restart_after_seconds() - UnixTime();
  restart_at_ = SteadySeconds() + std::clamp(left, 0.0, last.restart_after_seconds());
  return absl::OkStatus();
}

// On a machine that cannot be seen from here the attempt may yet live: then its heartbeats tell.
// One that beats on in spite of that is fenced off by the next.
absl::Status Supervisor::AwaitSilence(const std::function<bool()>& stop_requested) {
  const double begin = SteadySeconds();
  while (HasLiveAttempt(run_, UnixTime())) {
    if (stop_requested()) RecordStop();
    const double limit = ReadStopRequest(run_)
                             ? options_.stop_grace_seconds + options_.kill_grace_seconds
                             : options_.limits.launch_seconds;
    if (SteadySeconds() - begin > limit) break;
    SleepSeconds(0.2);
  }
  return absl::OkStatus();
}

absl::Status Supervisor::Turn() {
  RETURN_IF_ERROR(FollowSteps());
  if (attempt_) return TurnAttempt();
  if (ReadStopRequest(run_))
    return journal_->Tell(v1::RUN_STOPPED, "stopped before it was started again");
  return SteadySeconds() >= restart_at_ ? StartAttempt() : absl::OkStatus();
}

absl::Status Supervisor::TurnAttempt() {
  if (!attempt_->IsRunning()) return AttemptEnded();
  if (exited_at_ == 0 && ExitOfAttempt(run_)) exited_at_ = SteadySeconds();
  if (exited_at_ > 0 && SteadySeconds() - exited_at_ > kExitGraceSeconds) return AttemptEnded();
  if (ReadStopRequest(run_)) {
    RETURN_IF_ERROR(HurryStop());
  }
  return exited_at_ > 0 ? absl::OkStatus() : LookAtHeartbeats();
}

absl::StatusOr<AttemptProcess> Supervisor::LaunchAttempt() {
  ASSIGN_OR_RETURN(const LaunchCommand command, ReadLaunchCommand(run_));
  const std::string nonce = NewNonce();
  std::ofstream(run_.log(), std::ios::app) << AttemptMarker(nonce);
  return AttemptProcess::Start(run_, command, nonce, UnixTime(), FenceSeconds());
}

absl::Status Supervisor::StartAttempt() {
  const bool told = journal_->state() == v1::RUN_STARTING;
  const int32_t attempt_number = journal_->history().run.attempts() + (told ? 0 : 1);
  RETURN_IF_ERROR(journal_->Tell(
      v1::RUN_STARTING,
      absl::StrCat("attempt ", attempt_number, " starts from step ", NewestCheckpointStep(run_))));
  absl::StatusOr<AttemptProcess> attempt = LaunchAttempt();
  if (!attempt.ok()) {
    return Fail(NewIncident(v1::LAUNCH_FAILED, std::string(attempt.status().message())),
                MayStartLater(attempt.status()));
  }
  Attach(*std::move(attempt));
  return absl::OkStatus();
}

void Supervisor::Attach(AttemptProcess attempt) {
  WatchLimits limits = options_.limits;
  // Nobody knows yet how long a step takes.
  if (step_seconds_.empty()) {
    limits.first_step_seconds = std::max(limits.first_step_seconds, limits.long_phase_seconds);
  }
  watch_.emplace(spec_.world_size(), attempt.record().nonce, limits, SteadySeconds());
  slow_ranks_.emplace(spec_.supervision().slow_rank_ratio());
  signalled_.clear();
  exited_at_ = 0;
  probe_ = {};
  attempt_.emplace(std::move(attempt));
}

// Ranks elsewhere may outlive the attempt before; those here are known to be gone.
double Supervisor::FenceSeconds() const {
  const std::string own = HostName();
  const std::vector<v1::Heartbeat> beats = run_.ReadHeartbeats();
  const bool elsewhere =
      std::any_of(beats.begin(), beats.end(), [&](const auto& beat) { return beat.host() != own; });
  return elsewhere ? kFenceSeconds : 0;
}

absl::Status Supervisor::FollowSteps() {
  absl::StatusOr<std::vector<v1::RunEvent>> events = steps_->Next(kEventsPerRead);
  // The steps go untold; the run goes on.
  if (!events.ok()) journal_->Complain(events.status());
  while (events.ok() && !events->empty()) {
    // Steps can be done before the first heartbeat is looked at.
    if (attempt_ && journal_->state() == v1::RUN_STARTING) {
      RETURN_IF_ERROR(journal_->Tell(v1::RUN_RUNNING, "the first rank reports"));
    }
    for (v1::RunEvent& event : *events) {
      AddStepTime(event.metrics());
      if (watch_) watch_->SawStep();
      RETURN_IF_ERROR(journal_->Append(std::move(event)));
    }
    events = steps_->Next(kEventsPerRead);
  }
  return absl::OkStatus();
}

// Dense steps do not tell how long one with experts takes.
void Supervisor::AddStepTime(const v1::StepMetrics& step) {
  if (step.upcycled() != upcycled_) step_seconds_.clear();
  upcycled_ = step.upcycled();
  step_seconds_.push_back(step.step_seconds());
  if (step_seconds_.size() > kRecentSteps) step_seconds_.pop_front();
}

absl::Status Supervisor::LookAtHeartbeats() {
  const double now = SteadySeconds();
  if (now < look_at_) return absl::OkStatus();
  RETURN_IF_ERROR(TakeHeartbeats(now));
  const double end = SteadySeconds();
  look_at_ =
      end + std::clamp(kLookCostRatio * (end - now), kShortestLookSeconds, kLongestLookSeconds);
  RETURN_IF_ERROR(ReportSlowRanks());
  const std::vector<double> steps(step_seconds_.begin(), step_seconds_.end());
  const double limit = HangLimit(spec_.supervision(), steps);
  ProbeWhenAllWait(limit, now);
  const std::optional<HeartbeatWatch::Hang> hang = watch_->FindHang(limit, now);
  return hang ? EndHungAttempt(*hang) : absl::OkStatus();
}

absl::Status Supervisor::TakeHeartbeats(double now) {
  watch_->Look(run_.ReadHeartbeats(), now);
  if (!watch_->any_reported() || journal_->state() != v1::RUN_STARTING) return absl::OkStatus();
  return journal_->Tell(v1::RUN_RUNNING, "the first rank reports");
}

absl::Status Supervisor::ReportSlowRanks() {
  const std::vector<v1::Heartbeat> beats = watch_->beats();
  if (std::ssize(beats) < spec_.world_size()) return absl::OkStatus();
  for (const v1::SlowRank& slow : slow_ranks_->Look(beats)) {
    v1::RunEvent event;
    event.set_message(absl::StrCat("rank ", slow.rank(), " on ", slow.host(), " takes ",
                                   std::round(slow.ratio() * 100) / 100,
                                   " times as long for its own work as the median rank"));
    *event.mutable_slow_rank() = slow;
    RETURN_IF_ERROR(journal_->Append(std::move(event)));
  }
  return absl::OkStatus();
}

// Early enough to have the answer when the limit is reached.
void Supervisor::ProbeWhenAllWait(double limit, double now) {
  if (watch_->AllWaitingFor(now) < std::max(limit - 2 * kProbeSeconds, limit / 3)) {
    probe_ = {};
  } else if (!probe_.valid()) {
    probe_ = ProbeHostsInBackground(AddressesOf(spec_.launch(), watch_->beats()), kProbeSeconds);
  }
}

HeartbeatWatch::Hang Supervisor::WithCutHosts(HeartbeatWatch::Hang hang) {
  if (!hang.all_wait || !probe_.valid()) return hang;
  CutHosts cut = FindCutHosts(spec_.launch(), watch_->beats(), probe_.get(), HostName());
  return {std::move(cut.ranks), absl::StrCat(hang.cause, "; ", cut.cause), true};
}

absl::Status Supervisor::EndHungAttempt(const HeartbeatWatch::Hang& hang) {
  const HeartbeatWatch::Hang found = WithCutHosts(hang);
  v1::RunIncident incident =
      NewIncident(watch_->any_reported() ? v1::RANK_HUNG : v1::LAUNCH_FAILED, found.cause);
  incident.mutable_ranks()->Assign(found.ranks.begin(), found.ranks.end());
  const absl::Status ended = attempt_->End(run_);
  if (!ended.ok())
    incident.set_cause(absl::StrCat(incident.cause(), "; ", std::string(ended.message())));
  attempt_.reset();
  RETURN_IF_ERROR(FollowSteps());
  // It was done in the very moment.
  const std::optional<ExitRecord> exit = ExitOfAttempt(run_);
  if (exit && exit->outcome == kSucceeded) return EndAsExitSays(*exit);
  return Fail(std::move(incident), /*retryable=*/true);
}

absl::Status Supervisor::AttemptEnded() {
  // Before the others are ended too.
  RETURN_IF_ERROR(TakeHeartbeats(SteadySeconds()));
  const std::vector<v1::Heartbeat> silent_first = watch_->SilentFirst();
  // Also what mpirun has left behind: it was killed, or hangs while it ends.
  const absl::Status gone = attempt_->End(run_);
  if (!gone.ok()) std::cerr << gone.message() << std::endl;
  RETURN_IF_ERROR(TakeHeartbeats(SteadySeconds()));
  RETURN_IF_ERROR(FollowSteps());
  const std::optional<int> code = attempt_->exit_code();
  const std::optional<ExitRecord> exit = ExitOfAttempt(run_);
  attempt_.reset();
  if (exit) return EndAsExitSays(*exit);
  if (ReadStopRequest(run_))
    return journal_->Tell(v1::RUN_STOPPED, "stopped without a new checkpoint");
  const AttemptEnd end = DescribeEnd(run_, spec_.launch(), watch_->beats(), silent_first, code);
  v1::RunIncident incident =
      NewIncident(watch_->any_reported() ? v1::TRAINER_DIED : v1::LAUNCH_FAILED, end.cause);
  incident.mutable_ranks()->Assign(end.ranks.begin(), end.ranks.end());
  return Fail(std::move(incident), end.retryable);
}

absl::Status Supervisor::EndAsExitSays(const ExitRecord& exit) {
  if (exit.outcome == kSucceeded) {
    return journal_->Tell(v1::RUN_SUCCEEDED, absl::StrCat("done: step ", exit.step));
  }
  if (exit.outcome == kStopped) {
    return journal_->Tell(v1::RUN_STOPPED, absl::StrCat("stopped after step ", exit.step));
  }
  const std::string error = exit.error.empty() ? "the trainer gave no cause" : exit.error;
  if (ReadStopRequest(run_)) return journal_->Tell(v1::RUN_STOPPED, "stopped; " + error);
  return Fail(NewIncident(v1::TRAINER_FAILED, error), exit.retryable);
}

absl::Status Supervisor::Lost() {
  return Fail(NewIncident(v1::LOST,
                          "the processes of the run are gone without a result, and so was "
                          "its supervisor: was the machine restarted?"),
              /*retryable=*/true);
}

// mpirun answers SIGTERM by ending its ranks before they have saved: ranks are asked themselves,
// by stop.json and here by a signal too.
// Counted from when the request was seen: it may have been written by another machine's clock.
absl::Status Supervisor::HurryStop() {
  if (stop_seen_at_ == 0) stop_seen_at_ = SteadySeconds();
  const double waited = SteadySeconds() - stop_seen_at_;
  if (waited < options_.stop_grace_seconds) return SignalRanks(run_, &signalled_);
  if (waited < options_.stop_grace_seconds + options_.kill_grace_seconds) {
    if (!std::exchange(terminated_, true)) attempt_->Terminate();
    return absl::OkStatus();
  }
  return AttemptEnded();
}

v1::RunIncident Supervisor::NewIncident(v1::IncidentKind kind, std::string cause) const {
  v1::RunIncident incident;
  incident.set_time(UnixTime());
  incident.set_kind(kind);
  incident.set_cause(std::move(cause));
  return incident;
}

absl::Status Supervisor::Fail(v1::RunIncident incident, bool retryable) {
  incident.set_attempt(journal_->history().run.attempts());
  incident.set_step(journal_->history().newest_step);
  incident.set_resumed_step(NewestCheckpointStep(run_));
  const int32_t restarts = journal_->history().RestartsBefore(incident.resumed_step());
  const std::optional<double> pause = RestartPause(spec_.supervision(), retryable, restarts);
  incident.set_restart_after_seconds(pause.value_or(0));
  restart_at_ = SteadySeconds() + pause.value_or(0);
  v1::RunEvent event;
  event.set_state(pause ? v1::RUN_RESTARTING : v1::RUN_FAILED);
  event.set_message(pause ? incident.cause()
                          : StoryOf(journal_->history().run.incidents(), incident, restarts));
  *event.mutable_incident() = std::move(incident);
  return journal_->Append(std::move(event));
}

}  // namespace braid
