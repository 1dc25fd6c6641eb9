#include "control/run_status.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "control/launch/scheduled_run.h"
#include "control/supervision/adoption.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// A trainer that has written exit.json but hangs while ending is not waited for.
constexpr double kExitGraceSeconds = 15;
// From the record in the data base to a process, when all goes well; and from the process to the
// first event of a supervisor, with time for another (adoption.h) where the first one died.
constexpr double kLaunchGraceSeconds = 30;
constexpr int64_t kPaceSteps = 20;

// Unix seconds of the last change; 0 when there is no such file.
double ModifiedAt(const std::filesystem::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec;
}

struct Outcome {
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  std::string error;
  double finished_at = 0;
};

Outcome OutcomeOf(const ExitRecord& exit, double finished_at) {
  if (exit.outcome == kSucceeded) return {v1::RUN_SUCCEEDED, "", finished_at};
  if (exit.outcome == kStopped) return {v1::RUN_STOPPED, "", finished_at};
  return {v1::RUN_FAILED, exit.error.empty() ? "the trainer gave no cause" : exit.error,
          finished_at};
}

// Of a run that a scheduler has, or had and ended.
Outcome OutcomeOf(const ScheduledState& scheduled, const Outcome& told) {
  if (scheduled.state != v1::RUN_FAILED) return {scheduled.state, "", told.finished_at};
  return {v1::RUN_FAILED, scheduled.message, told.finished_at};
}

// The process is gone and has not said how it went.
Outcome OutcomeWithoutExit(const RunDirectory& run) {
  const double finished_at = std::max(ModifiedAt(run.log()), ModifiedAt(run.process()));
  if (ReadStopRequest(run)) return {v1::RUN_STOPPED, "", finished_at};
  const std::string log = LogTail(run);
  return {v1::RUN_FAILED,
          absl::StrCat("the trainer ended without a result; ",
                       log.empty() ? absl::StrCat(run.log().string(), " is empty")
                                   : absl::StrCat("the end of trainer.log:\n", log)),
          finished_at};
}

Outcome LiveOutcome(const RunDirectory& run, const v1::Run& description) {
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
  const double launched_at = record.ok() ? record->launched_at : 0;
  const bool reported =
      std::any_of(description.heartbeats().begin(), description.heartbeats().end(),
                  [&](const v1::Heartbeat& beat) { return beat.time() >= launched_at; });
  return {reported ? v1::RUN_RUNNING : v1::RUN_STARTING, "", 0};
}

// Of a run without events: it was started by hand, or by a supervisor that has not come so far.
Outcome DeriveOutcome(const RunDirectory& run, const v1::Run& description, double now) {
  // In this order: a process that ends between the two looks has written its
  // exit.json by the second.
  const bool alive = HasLiveProcess(run, now);
  const std::optional<ExitRecord> exit = run.ReadExit();
  const double exited_at = ModifiedAt(run.exit());
  if (alive && (!exit || now - exited_at < kExitGraceSeconds)) return LiveOutcome(run, description);
  if (exit) return OutcomeOf(*exit, exited_at);
  if (const auto process = ReadProcessRecord(run.process()); process.ok()) {
    const bool adoptable =
        std::filesystem::exists(run.launch()) && now - process->launched_at < kLaunchGraceSeconds;
    return adoptable ? Outcome{v1::RUN_STARTING, "", 0} : OutcomeWithoutExit(run);
  }
  if (now - description.created_at() < kLaunchGraceSeconds) return {v1::RUN_STARTING, "", 0};
  return {v1::RUN_FAILED, "the trainer was never started; resume the run to start it", 0};
}

// A new launch whose supervisor has not told its first event; where that is dead, it is replaced.
bool IsResuming(const RunDirectory& run, const RunHistory& history) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  if (!process.ok() || process->nonce == history.nonce) return false;
  return IsAlive(process->identity) ||
         (IsOfThisMachine(process->identity) && IsLaunchedAnew(run, history.nonce));
}

// As the supervisor tells it; and where nobody sees to the run any more, that.
Outcome ToldOutcome(const RunDirectory& run, const v1::RunEvent& newest, const RunHistory& history,
                    double now) {
  if (HasEnded(newest.state())) {
    if (IsResuming(run, history)) return {v1::RUN_STARTING, "", 0};
    return {newest.state(), newest.state() == v1::RUN_FAILED ? newest.message() : "",
            newest.time()};
  }
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  // Here, a supervisor that has died is replaced (adoption.h).
  if (!process.ok() || IsOfThisMachine(process->identity) || HasLiveProcess(run, now)) {
    return {newest.state(), "", 0};
  }
  if (const auto exit = run.ReadExit()) return OutcomeOf(*exit, ModifiedAt(run.exit()));
  return {v1::RUN_FAILED,
          "lost: its supervisor runs on another machine, and no rank has reported for a while; "
          "resume the run to start it again",
          newest.time()};
}

// What the events up to now amount to.
void AddHistory(const RunHistory& history, const v1::RunEvent& newest, double now, v1::Run* run) {
  run->set_attempts(history.run.attempts());
  *run->mutable_incidents() = history.run.incidents();
  *run->mutable_slow_ranks() = history.run.slow_ranks();
  run->set_effective_training_time(history.EffectiveTrainingTime(now));
  run->set_last_event(newest.number());
}

// The newest step, with the newest routing: that is measured every so many steps only.
v1::StepMetrics Latest(std::span<const v1::StepMetrics> recent) {
  v1::StepMetrics latest = recent.back();
  for (size_t i = recent.size(); i-- > 0 && latest.routing().empty();) {
    *latest.mutable_routing() = recent[i].routing();
  }
  return latest;
}

}  // namespace

v1::Run DescribeRun(const RunRecord& record, double now) {
  const RunDirectory run(record.run_dir);
  v1::Run description;
  description.set_id(record.id);
  description.set_run_dir(record.run_dir.string());
  description.set_created_at(record.created);
  description.set_principal(record.principal);
  if (auto spec = run.ReadSpec(); spec.ok()) *description.mutable_spec() = *std::move(spec);
  for (v1::Heartbeat& beat : run.ReadHeartbeats()) {
    *description.add_heartbeats() = std::move(beat);
  }
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(run.events());
  const RunHistory history = ReadRunHistory(run.supervision()).value_or(RunHistory());
  Outcome outcome =
      newest ? ToldOutcome(run, *newest, history, now) : DeriveOutcome(run, description, now);
  if (const auto scheduled = LookAtScheduledRun(run)) outcome = OutcomeOf(*scheduled, outcome);
  description.set_scheduler_job(SchedulerJobOf(run));
  if (newest) AddHistory(history, *newest, now, &description);
  description.set_state(outcome.state);
  description.set_error(outcome.error);
  description.set_finished_at(outcome.finished_at);
  const std::vector<v1::StepMetrics> recent = run.ReadRecentMetrics(kPaceSteps);
  if (!recent.empty()) *description.mutable_latest() = Latest(recent);
  if (!HasEnded(outcome.state)) {
    description.set_eta_seconds(EtaSeconds(recent, description.spec().num_steps()));
  }
  return description;
}

double EtaSeconds(std::span<const v1::StepMetrics> recent, int64_t num_steps) {
  double seconds = 0;
  int64_t steps = 0;
  for (const v1::StepMetrics& step : recent.last(std::min<size_t>(recent.size(), kPaceSteps))) {
    if (!(step.step_seconds() > 0)) continue;
    seconds += step.step_seconds();
    ++steps;
  }
  if (steps == 0) return 0;
  const int64_t left = std::max<int64_t>(0, num_steps - recent.back().step());
  return seconds / static_cast<double>(steps) * static_cast<double>(left);
}

}  // namespace braid
