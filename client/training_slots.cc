#include "client/training_slots.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "runs/run_state.h"

namespace braid {

namespace {

std::string HostOf(const TrainingTask& task) {
  const v1::LaunchConfig& launch = task.request.spec().launch();
  return launch.hosts().empty() ? "" : launch.hosts(0).host();
}

std::vector<std::string> HostsOf(const std::vector<TrainingTask>& tasks) {
  std::vector<std::string> hosts;
  for (const TrainingTask& task : tasks) hosts.push_back(HostOf(task));
  return hosts;
}

}  // namespace

TrainingSlots::TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks, int slots)
    // One host for all tasks, so that the limit is common to them.
    : TrainingSlots(launcher, tasks, std::vector<std::string>(tasks.size()), {{"", slots}}) {}

TrainingSlots::TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks,
                             SlotsByHost slots)
    : TrainingSlots(launcher, tasks, HostsOf(tasks), std::move(slots)) {}

TrainingSlots::TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks,
                             std::vector<std::string> host_of, SlotsByHost slots)
    : launcher_(launcher),
      tasks_(std::move(tasks)),
      host_of_(std::move(host_of)),
      slots_(std::move(slots)),
      runs_(tasks_.size()) {
  for (size_t task = 0; task < tasks_.size(); ++task) {
    const auto of_host = slots_.find(host_of_[task]);
    BRAID_CHECK(of_host != slots_.end() && of_host->second >= 1)
        << "no slot for host '" << host_of_[task] << "'";
    BRAID_CHECK(!tasks_[task].after || *tasks_[task].after < task);
    if (tasks_[task].after) awaited_.insert(*tasks_[task].after);
    waiting_.insert(task);
  }
}

absl::Status TrainingSlots::Advance() {
  // An error of the launcher leaves the remaining tasks in their sets, so the next call continues
  // with them.
  for (auto task = active_.begin(); task != active_.end();) {
    ASSIGN_OR_RETURN(runs_[*task], launcher_.Get(runs_[*task].id()));
    if (!HasEnded(runs_[*task].state())) {
      ++task;
      continue;
    }
    if (runs_[*task].state() == v1::RUN_SUCCEEDED && fresh_.contains(*task)) {
      timed_.push_back(*task);
    }
    task = active_.erase(task);
  }
  RETURN_IF_ERROR(StartReady(/*awaited=*/true));
  return StartReady(/*awaited=*/false);
}

absl::Status TrainingSlots::StartReady(bool awaited) {
  for (auto task = waiting_.begin(); task != waiting_.end();) {
    if (awaited_.contains(*task) != awaited) {
      ++task;
    } else if (NeverStarts(*task)) {
      task = waiting_.erase(task);
    } else if (!IsReady(*task) || !HasFreeSlot(host_of_[*task])) {
      ++task;
    } else {
      RETURN_IF_ERROR(Start(*task));
      task = waiting_.erase(task);
    }
  }
  return absl::OkStatus();
}

bool TrainingSlots::HasFreeSlot(const std::string& host) const {
  return std::ranges::count(active_, host, [&](size_t task) { return host_of_[task]; }) <
         slots_.at(host);
}

bool TrainingSlots::NeverStarts(size_t task) const {
  const std::optional<size_t> after = tasks_[task].after;
  return after && !waiting_.contains(*after) && !active_.contains(*after) &&
         runs_[*after].state() != v1::RUN_SUCCEEDED;
}

bool TrainingSlots::IsReady(size_t task) const {
  const std::optional<size_t> after = tasks_[task].after;
  return !after || runs_[*after].state() == v1::RUN_SUCCEEDED;
}

absl::Status TrainingSlots::Start(size_t task) {
  v1::LaunchRunRequest request = tasks_[task].request;
  if (const std::optional<size_t> after = tasks_[task].after) {
    ASSIGN_OR_RETURN(request, tasks_[task].request_after(runs_[*after]));
  }
  ASSIGN_OR_RETURN(runs_[task], launcher_.Launch(request));
  if (HasEnded(runs_[task].state()) && runs_[task].state() != v1::RUN_SUCCEEDED) {
    ASSIGN_OR_RETURN(runs_[task], launcher_.Resume(runs_[task].id()));
  } else if (runs_[task].latest().step() == 0) {
    fresh_.insert(task);
  }
  if (!HasEnded(runs_[task].state())) active_.insert(task);
  return absl::OkStatus();
}

bool TrainingSlots::done() const { return waiting_.empty() && active_.empty(); }

std::vector<size_t> TrainingSlots::Failed() const {
  std::vector<size_t> failed;
  for (size_t task = 0; task < tasks_.size(); ++task) {
    const v1::RunState state = runs_[task].state();
    if (HasEnded(state) && state != v1::RUN_SUCCEEDED) failed.push_back(task);
  }
  return failed;
}

double TrainingSlots::Slowness() const {
  double planned = 0;
  double taken = 0;
  for (const size_t task : timed_) {
    planned += tasks_[task].planned_seconds;
    taken += runs_[task].finished_at() - runs_[task].created_at();
  }
  return planned > 0 ? taken / planned : 1;
}

double TrainingSlots::SecondsLeft() const {
  double seconds = 0;
  for (const auto& [host, slots] : slots_) seconds = std::max(seconds, SecondsLeft(host, slots));
  return seconds;
}

double TrainingSlots::SecondsLeft(const std::string& host, int slots) const {
  const double slowness = Slowness();
  // Active runs come first and occupy one slot each.
  std::vector<double> durations;
  for (const size_t task : active_) {
    if (host_of_[task] != host) continue;
    const double eta = runs_[task].eta_seconds();
    durations.push_back(eta > 0 ? eta : slowness * tasks_[task].planned_seconds);
  }
  for (const size_t task : waiting_) {
    if (host_of_[task] == host) durations.push_back(slowness * tasks_[task].planned_seconds);
  }
  return FinishTime(durations, slots);
}

double FinishTime(std::span<const double> durations, int slots) {
  std::vector<double> free_at(std::max(slots, 1), 0.0);
  for (const double duration : durations) *std::ranges::min_element(free_at) += duration;
  return *std::ranges::max_element(free_at);
}

}  // namespace braid
