// Takes the runs of a plan to their ends on a training service, a few at a time, and shows how far
// they are.
#ifndef BRAID_CLIENT_LANE_SCREEN_H_
#define BRAID_CLIENT_LANE_SCREEN_H_

#include <chrono>
#include <vector>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "client/training_lanes.h"
#include "rpc/service_patience.h"
#include "rpc/training_client.h"

namespace braid {

struct LanePlan {
  std::vector<LaneTask> tasks = {};
  // Runs at a time, wherever they are.
  int lanes = 1;
  // Instead of `lanes`: runs at a time of each host that the tasks name.
  HostLanes lanes_of_hosts = {};
  // Work that follows the runs, for the time left.
  double seconds_afterwards = 0;
};

// The ended runs, in the order of the tasks, whatever way they ended. A row for each run that goes,
// by its name, and one for all. A service that is away for less than `patience` is waited for.
// CancelledError on Ctrl-C: runs that go are left alone, and the same tasks find them again.
absl::StatusOr<std::vector<v1::Run>> FollowLanes(
    TrainingClient& client, const LanePlan& plan, ProgressBoard& board,
    std::chrono::milliseconds patience = kServicePatience);

}  // namespace braid

#endif  // BRAID_CLIENT_LANE_SCREEN_H_
