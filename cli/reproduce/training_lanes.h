// Takes a list of runs to their ends, a few at a time.
//
//   TrainingLanes lanes(launcher, planned, 2);
//   while (!lanes.done()) {
//     RETURN_IF_ERROR(lanes.Advance());
//     ... show lanes.active(), lanes.SecondsLeft(); wait a little ...
//   }
//
// All state is the service's: the same requests after an interruption find finished runs
// finished, follow those that still go, and resume those that were stopped or have failed.
#ifndef BRAID_CLI_REPRODUCE_TRAINING_LANES_H_
#define BRAID_CLI_REPRODUCE_TRAINING_LANES_H_

#include <cstdint>
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

class TrainingLanes {
 public:
  // Requires lanes >= 1. `launcher` must outlive this.
  TrainingLanes(RunLauncher& launcher, std::vector<LaneTask> tasks, int lanes);

  // Asks after the runs that go, and starts the next ones in free lanes. A run that fails under
  // way is not tried again, and the others go on; an error of the launcher itself is returned.
  absl::Status Advance();

  bool done() const;
  // Indices of tasks.
  const std::set<size_t>& active() const { return active_; }
  // The newest known state of a task's run; without an id before its launch.
  const v1::Run& run(size_t task) const { return runs_[task]; }
  // Indices of tasks whose runs ended without success.
  std::vector<size_t> Failed() const;

  // Until all are done: what runs say of themselves, and plans, scaled by how long finished runs
  // took, for those that have not begun.
  double SecondsLeft() const;

 private:
  absl::Status Start(size_t task);
  // Seconds that runs take over the seconds planned for them.
  double Slowness() const;

  RunLauncher& launcher_;
  const std::vector<LaneTask> tasks_;
  const size_t lanes_;
  size_t next_ = 0;
  std::set<size_t> active_;
  std::vector<v1::Run> runs_;
  // Finished while this watched, so that their times tell how fast the machine is now.
  std::vector<size_t> timed_;
};

}  // namespace braid

#endif  // BRAID_CLI_REPRODUCE_TRAINING_LANES_H_
