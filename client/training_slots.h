// Trains a list of runs, a limited number concurrently. A slot runs one training at a time.
//
//   TrainingSlots slots(launcher, tasks, 2);                                  // anywhere
//   TrainingSlots slots(launcher, tasks, SlotsByHost{{"node1", 16}, {"node2", 8}});
//
//   while (!slots.done()) {
//     RETURN_IF_ERROR(slots.Advance());
//     ... show slots.active(), slots.SecondsLeft(); wait a little ...
//   }
//
// All state is kept by the service: after an interruption, the same requests return finished runs,
// follow active ones, and resume runs that were stopped or failed.
#ifndef BRAID_CLIENT_TRAINING_SLOTS_H_
#define BRAID_CLIENT_TRAINING_SLOTS_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The operations of a training service that are needed here.
class RunLauncher {
 public:
  virtual ~RunLauncher() = default;

  // Returns the run with the request's id; starts it when it is new.
  virtual absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request) = 0;
  virtual absl::StatusOr<v1::Run> Get(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Run> Resume(const std::string& id) = 0;
};

struct TrainingTask {
  // Without `after`, all of it; otherwise the name and the launch of the spec.
  v1::LaunchRunRequest request;
  // The task, earlier in the list, whose run must succeed before this one is started; if it does
  // not succeed, this one never starts.
  std::optional<size_t> after = {};
  // Returns the whole request of such a task, given that run.
  std::function<absl::StatusOr<v1::LaunchRunRequest>(const v1::Run& before)> request_after = {};
  // Estimate made before any run was measured.
  double planned_seconds = 0;
};

// Maximum concurrent runs per host; "" is the host of the service.
using SlotsByHost = std::map<std::string, int>;

class TrainingSlots {
 public:
  // Trains up to `slots` runs concurrently, on any host. Requires slots >= 1. `launcher` must
  // outlive this object.
  TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks, int slots);
  // Limits concurrent runs per host. The host of a task is the first of `spec.launch.hosts`, or ""
  // without one; `slots` must have an entry of at least 1 for the host of every task.
  TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks, SlotsByHost slots);

  // Updates the active runs and starts the next ones in free slots: per host in the order of the
  // tasks, those that others wait for first, and none that waits for another run. A run that fails
  // is not retried, and the others continue. Returns the errors of the launcher and of
  // request_after.
  absl::Status Advance();

  // Returns whether all runs have ended or will never start.
  bool done() const;
  // Indices of the tasks whose runs are active.
  const std::set<size_t>& active() const { return active_; }
  // Returns the newest known state of a task's run; its id is empty before the launch, and at the
  // end if it was never started.
  const v1::Run& run(size_t task) const { return runs_[task]; }
  // Returns the indices of the tasks whose runs ended without success.
  std::vector<size_t> Failed() const;

  // Returns the estimated seconds until the last host is done: active runs report their own
  // estimate, and planned times of other runs are scaled by the measured times of completed runs.
  double SecondsLeft() const;

 private:
  TrainingSlots(RunLauncher& launcher, std::vector<TrainingTask> tasks,
                std::vector<std::string> host_of, SlotsByHost slots);

  // Starts waiting tasks in free slots: those that others wait for, or the others.
  absl::Status StartReady(bool awaited);
  absl::Status Start(size_t task);
  bool HasFreeSlot(const std::string& host) const;
  // Returns whether the task that this one waits for can no longer succeed.
  bool NeverStarts(size_t task) const;
  // Returns whether a task waits for no other, or for one that has succeeded.
  bool IsReady(size_t task) const;
  // Returns measured seconds of runs divided by their planned seconds.
  double Slowness() const;
  double SecondsLeft(const std::string& host, int slots) const;

  RunLauncher& launcher_;
  const std::vector<TrainingTask> tasks_;
  // The host of each task.
  const std::vector<std::string> host_of_;
  const SlotsByHost slots_;
  std::set<size_t> awaited_;  // tasks that others wait for
  std::set<size_t> waiting_;
  std::set<size_t> active_;
  std::vector<v1::Run> runs_;
  // Tasks whose runs were started by this object, so that their times are training times; the time
  // of a resumed run includes its pause.
  std::set<size_t> fresh_;
  // The tasks of fresh_ that succeeded.
  std::vector<size_t> timed_;
};

// Returns the time at which the last task ends when `slots` workers take tasks of these durations
// in order.
double FinishTime(std::span<const double> durations, int slots);

}  // namespace braid

#endif  // BRAID_CLIENT_TRAINING_SLOTS_H_
