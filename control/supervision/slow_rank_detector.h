// Finds ranks that slow down the others, from the time that each computes on its own.
#ifndef BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_
#define BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_

#include <set>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// Collectives make all ranks take the same time for a step; ranks differ in how much of it they
// spend waiting. The lower median is used, so that of two ranks the slower one can be found. Not
// thread-safe.
class SlowRankDetector {
 public:
  // A rank is slow from `ratio` times the median on.
  explicit SlowRankDetector(double ratio) : ratio_(ratio) {}

  // Returns the ranks that have become slow since the last call, and those that have recovered:
  // come within half of the margin. Between the two a rank is not returned again. `beats` holds one
  // heartbeat per rank of one attempt; while any of them has no busy_seconds yet, the result is
  // empty.
  std::vector<v1::SlowRank> Look(std::span<const v1::Heartbeat> beats);

 private:
  const double ratio_;
  std::set<int> slow_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_
