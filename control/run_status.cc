#include "control/run_status.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/launch/scheduled_run.h"
#include "control/launch/scheduler.h"
#include "control/supervision/decision.h"
#include "control/supervision/observe_run.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "runs/checkpoint_directory.h"
#include "runs/metrics_reader.h"
#include "runs/pace.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Returns the cause of a failure that only the log can explain.
std::string ErrorFromLog(const RunDirectory& run) {
  const std::string log = LogExcerpt(LogTail(run, 1 << 15));
  return absl::StrCat("the trainer exited without writing exit.json; ",
                      log.empty() ? absl::StrCat(run.log().string(), " does not say why")
                                  : absl::StrCat("the end of trainer.log:\n", log));
}

// Returns the time of an end that no event records, in Unix seconds.
double EndOf(const RunDirectory& run, const Observation& seen, const v1::RunEvent* newest) {
  if (seen.exit) return ModifiedAt(run.exit());
  if (newest != nullptr) return newest->time();
  return std::max(ModifiedAt(run.log()), ModifiedAt(run.process()));
}

// Returns the time of the last sign of a run whose end nothing records. A run that was never
// started has none but its creation.
double LastSignOf(const RunDirectory& run, double created) {
  return std::max({created, ModifiedAt(run.process()), ModifiedAt(run.events()),
                   ModifiedAt(run.log()), ModifiedAt(SchedulerFile(run))});
}

// Sets state, reason, error and finished_at to what Conclude derives from the files and processes.
void SetConclusion(const RunDirectory& run, const Observation& seen, const v1::RunEvent* newest,
                   v1::Run* description) {
  const Conclusion conclusion = Conclude(seen);
  description->set_state(conclusion.state);
  const bool waits = conclusion.state == v1::RUN_QUEUED || conclusion.state == v1::RUN_STOPPED;
  if (conclusion.is_recorded && waits) description->set_reason(newest->message());
  if (!HasEnded(conclusion.state)) {
    // A scheduler restarts its jobs itself.
    if (description->reason().empty() && SchedulerJobOf(run).empty()) {
      description->set_reason(conclusion.action.message);
    }
    return;
  }
  if (conclusion.is_recorded) {
    description->set_finished_at(newest->time());
    if (conclusion.state == v1::RUN_FAILED) description->set_error(newest->message());
    return;
  }
  description->set_finished_at(EndOf(run, seen, newest));
  if (conclusion.state != v1::RUN_FAILED) return;
  description->set_error(conclusion.action.message.empty() ? ErrorFromLog(run)
                                                           : conclusion.action.message);
}

// Replaces the state from the run directory by what the scheduler knows.
void SetScheduledState(const ScheduledState& scheduled, v1::Run* run) {
  const bool again = run->state() == v1::RUN_QUEUED && scheduled.state == v1::RUN_QUEUED;
  const std::string cause = again ? run->reason() : "";
  const bool failed = scheduled.state == v1::RUN_FAILED;
  run->set_state(scheduled.state);
  run->set_error(failed ? scheduled.message : "");
  run->set_reason(failed ? "" : scheduled.message);
  if (!cause.empty()) absl::StrAppend(run->mutable_reason(), "; ", cause);
  if (!HasEnded(scheduled.state)) run->clear_finished_at();
}

void AddReason(const std::string& notice, v1::Run* run) {
  run->set_reason(absl::StrCat(run->reason(), run->reason().empty() ? "" : "; ", notice));
}

// Copies the spec of a run, or the reason why it cannot be read. Without a spec, the progress of a
// run has no planned number of steps.
void SetSpec(const absl::StatusOr<v1::RunSpec>& spec, v1::Run* run) {
  if (spec.ok()) {
    *run->mutable_spec() = *spec;
  } else if (!absl::IsNotFound(spec.status())) {
    AddReason(absl::StrCat("its settings are unreadable, so it cannot be resumed: ",
                           std::string(spec.status().message())),
              run);
  }
}

// Adds the summary of the events.
void AddHistory(const RunHistory& history, const v1::RunEvent& newest, double now, v1::Run* run) {
  run->set_attempts(history.run.attempts());
  *run->mutable_incidents() = history.run.incidents();
  *run->mutable_spikes() = history.run.spikes();
  if (history.run.has_validation()) *run->mutable_validation() = history.run.validation();
  if (!HasEnded(run->state())) *run->mutable_slow_ranks() = history.run.slow_ranks();
  run->set_effective_training_time(history.EffectiveTrainingTime(now));
  run->set_last_event(newest.number());
}

// Returns the newest step with the newest routing, which is measured in some steps only.
v1::StepMetrics Latest(std::span<const v1::StepMetrics> recent) {
  v1::StepMetrics latest = recent.back();
  for (size_t i = recent.size(); i-- > 0 && latest.routing().empty();) {
    *latest.mutable_routing() = recent[i].routing();
  }
  return latest;
}

void WarnOfLostMetrics(const RunDirectory& run, const std::optional<ExitRecord>& exit,
                       std::span<const v1::StepMetrics> recent, v1::Run* description) {
  const std::string end = WrongEnd(exit, recent.empty() ? 0 : recent.back().step());
  std::error_code error;
  if (end.empty() || !std::filesystem::exists(run.metrics(), error)) return;
  AddReason(absl::StrCat("metrics.jsonl is damaged: it ", end), description);
}

}  // namespace

v1::Run DescribeRun(const RunRecord& record, double now) {
  const RunDirectory run(record.run_dir);
  v1::Run description;
  description.set_id(record.id);
  description.set_run_dir(record.run_dir.string());
  description.set_created_at(record.created);
  description.set_principal(record.principal);
  const std::vector<v1::Heartbeat> heartbeats = run.ReadHeartbeats();
  description.mutable_heartbeats()->Assign(heartbeats.begin(), heartbeats.end());
  RunFiles files = {.newest = ReadNewestRunEvent(run.events())};
  const v1::RunEvent* const newest = files.newest ? &*files.newest : nullptr;
  const RunHistory history = ReadRunHistory(run.supervision()).value_or(RunHistory());
  files.nonce = history.nonce;
  files.heartbeats = heartbeats;
  Observation seen = ObserveRun(run, files, record.created, now);
  const std::optional<ScheduledState> scheduled = LookAtScheduledRun(run);
  const bool job_runs = scheduled && scheduled->state == v1::RUN_STATE_UNSPECIFIED;
  // The supervisor is on a node of the job, where its process cannot be seen; as long as the job
  // runs, what it recorded holds.
  if (job_runs) seen.attendance = Attendance::kAttended;
  SetConclusion(run, seen, newest, &description);
  if (scheduled && !job_runs) SetScheduledState(*scheduled, &description);
  if (HasEnded(description.state()) && description.finished_at() <= 0) {
    description.set_finished_at(LastSignOf(run, record.created));
  }
  SetSpec(run.ReadSpec(), &description);
  if (record.damaged) AddReason("its record in runs.sqlite is damaged", &description);
  description.set_scheduler_job(SchedulerJobOf(run));
  description.set_checkpoint_step(NewestCheckpointStep(run.checkpoints()));
  if (newest != nullptr) AddHistory(history, *newest, now, &description);
  const std::vector<v1::StepMetrics> recent = run.ReadRecentMetrics(Pace::kSteps);
  if (!recent.empty()) *description.mutable_latest() = Latest(recent);
  WarnOfLostMetrics(run, seen.exit, recent, &description);
  if (!HasEnded(description.state())) {
    Pace pace;
    for (const v1::StepMetrics& step : recent) pace.Add(step);
    description.set_eta_seconds(pace.SecondsLeft(description.spec().num_steps()));
  }
  return description;
}

}  // namespace braid
