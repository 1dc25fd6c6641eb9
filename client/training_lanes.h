// Takes a list of runs to their ends, a few at a time.
//
//   TrainingLanes lanes(launcher, tasks, 2);                                  // anywhere
//   TrainingLanes lanes(launcher, tasks, HostLanes{{"node1", 16}, {"node2", 8}});
//
//   while (!lanes.done()) {
//     RETURN_IF_ERROR(lanes.Advance());
//     ... show lanes.active(), lanes.SecondsLeft(); wait a little ...
//   }
//
// All state is the service's: the same requests after an interruption find finished runs
// finished, follow those that still go, and resume those that were stopped or have failed.
#ifndef BRAID_CLIENT_TRAINING_LANES_H_
#define BRAID_CLIENT_TRAINING_LANES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// What is needed of a training service.
class RunLauncher {
 public:
  virtual ~RunLauncher() = default;

  // The run with the request's id, started now if it is new.
  virtual absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request) = 0;
  virtual absl::StatusOr<v1::Run> Get(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Run> Resume(const std::string& id) = 0;
};

struct LaneTask {
  v1::LaunchRunRequest request;
  // Guessed before anything was measured.
  double planned_seconds = 0;
};

// Runs at a time of each host; "" is where the service is.
using HostLanes = std::map<std::string, int>;

class TrainingLanes {
 public:
  // `lanes` runs at a time, wherever they are. Requires lanes >= 1. `launcher` must outlive this.
  TrainingLanes(RunLauncher& launcher, std::vector<LaneTask> tasks, int lanes);
  // A lane takes runs of its host alone: the first of `spec.launch.hosts`, "" without one. Requires
  // a lane or more for the host of every task.
  TrainingLanes(RunLauncher& launcher, std::vector<LaneTask> tasks, HostLanes lanes);

  // Asks after the runs that go, and starts the next ones in free lanes, those of a host in the
  // order of the tasks. A run that fails under way is not tried again, and the others go on; an
  // error of the launcher itself is returned.
  absl::Status Advance();

  bool done() const;
  // Indices of tasks.
  const std::set<size_t>& active() const { return active_; }
  // The newest known state of a task's run; without an id before its launch.
  const v1::Run& run(size_t task) const { return runs_[task]; }
  // Indices of tasks whose runs ended without success.
  std::vector<size_t> Failed() const;

  // Until the last host is done: what runs say of themselves, and plans, scaled by how long runs
  // took that were begun here, for those that have not begun.
  double SecondsLeft() const;

 private:
  TrainingLanes(RunLauncher& launcher, std::vector<LaneTask> tasks,
                std::vector<std::string> host_of, HostLanes lanes);

  absl::Status Start(size_t task);
  bool HasFreeLane(const std::string& host) const;
  // Seconds that runs take over the seconds planned for them.
  double Slowness() const;
  double SecondsLeft(const std::string& host, int lanes) const;

  RunLauncher& launcher_;
  const std::vector<LaneTask> tasks_;
  // Of each task.
  const std::vector<std::string> host_of_;
  const HostLanes lanes_;
  std::set<size_t> waiting_;
  std::set<size_t> active_;
  std::vector<v1::Run> runs_;
  // Begun here, so that their times are of training alone: a resumed run was created before its
  // pause.
  std::set<size_t> fresh_;
  // Those of them that have succeeded.
  std::vector<size_t> timed_;
};

// When the last of tasks of these durations ends that `lanes` workers take in turn.
double FinishTime(std::span<const double> durations, int lanes);

}  // namespace braid

#endif  // BRAID_CLIENT_TRAINING_LANES_H_
