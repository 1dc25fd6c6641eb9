#include "cli/reproduce/training_lanes.h"

#include <algorithm>

#include "cli/reproduce/reproduction_plan.h"
#include "formats/check.h"
#include "formats/status_macros.h"
#include "trainer/control/run_state.h"

namespace braid {

TrainingLanes::TrainingLanes(RunLauncher& launcher, std::vector<LaneTask> tasks, int lanes)
    : launcher_(launcher), tasks_(std::move(tasks)), lanes_(lanes), runs_(tasks_.size()) {
  BRAID_CHECK(lanes >= 1) << lanes << " lanes";
}

absl::Status TrainingLanes::Advance() {
  for (auto task = active_.begin(); task != active_.end();) {
    ASSIGN_OR_RETURN(runs_[*task], launcher_.Get(runs_[*task].id()));
    if (!HasEnded(runs_[*task].state())) {
      ++task;
      continue;
    }
    if (runs_[*task].state() == v1::RUN_SUCCEEDED) timed_.push_back(*task);
    task = active_.erase(task);
  }
  while (next_ < tasks_.size() && active_.size() < lanes_) {
    RETURN_IF_ERROR(Start(next_));
    ++next_;
  }
  return absl::OkStatus();
}

absl::Status TrainingLanes::Start(size_t task) {
  ASSIGN_OR_RETURN(runs_[task], launcher_.Launch(tasks_[task].request));
  if (HasEnded(runs_[task].state()) && runs_[task].state() != v1::RUN_SUCCEEDED) {
    ASSIGN_OR_RETURN(runs_[task], launcher_.Resume(runs_[task].id()));
  }
  if (!HasEnded(runs_[task].state())) active_.insert(task);
  return absl::OkStatus();
}

bool TrainingLanes::done() const { return next_ == tasks_.size() && active_.empty(); }

std::vector<size_t> TrainingLanes::Failed() const {
  std::vector<size_t> failed;
  for (size_t task = 0; task < tasks_.size(); ++task) {
    const v1::RunState state = runs_[task].state();
    if (HasEnded(state) && state != v1::RUN_SUCCEEDED) failed.push_back(task);
  }
  return failed;
}

double TrainingLanes::Slowness() const {
  double planned = 0;
  double taken = 0;
  for (const size_t task : timed_) {
    planned += tasks_[task].planned_seconds;
    taken += runs_[task].finished_at() - runs_[task].created_at();
  }
  return planned > 0 ? taken / planned : 1;
}

double TrainingLanes::SecondsLeft() const {
  const double slowness = Slowness();
  // Those that go come first and take a lane each.
  std::vector<double> durations;
  for (const size_t task : active_) {
    const double eta = runs_[task].eta_seconds();
    durations.push_back(eta > 0 ? eta : slowness * tasks_[task].planned_seconds);
  }
  for (size_t task = next_; task < tasks_.size(); ++task) {
    durations.push_back(slowness * tasks_[task].planned_seconds);
  }
  return FinishTime(durations, static_cast<int>(lanes_));
}

}  // namespace braid
