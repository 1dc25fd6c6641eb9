// Trains the runs of a plan on a training service, a limited number concurrently, and shows their
// progress.
#ifndef BRAID_CLIENT_SLOT_SCREEN_H_
#define BRAID_CLIENT_SLOT_SCREEN_H_

#include <chrono>
#include <vector>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "client/training_slots.h"
#include "rpc/service_patience.h"
#include "rpc/training_client.h"

namespace braid {

struct SlotPlan {
  std::vector<TrainingTask> tasks = {};
  // Maximum concurrent runs, on any host.
  int slots = 1;
  // Replaces `slots` when not empty: maximum concurrent runs per host that the tasks name.
  SlotsByHost slots_of_hosts = {};
  // Estimated time of the work after the runs, included in the time left.
  double seconds_afterwards = 0;
};

// Trains all tasks and returns their runs in the order of the tasks, including runs that failed;
// runs that never started have no id. The board has one row per active run and one for all runs.
// Waits for an unavailable service up to `patience`. Cancelled on Ctrl-C: active runs continue, and
// a repeated call with the same tasks follows them.
absl::StatusOr<std::vector<v1::Run>> FollowSlots(
    TrainingClient& client, const SlotPlan& plan, ProgressBoard& board,
    std::chrono::milliseconds patience = kServicePatience);

}  // namespace braid

#endif  // BRAID_CLIENT_SLOT_SCREEN_H_
