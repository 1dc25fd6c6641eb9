// Which ranks hold up the others, from the time that each works by itself.
#ifndef BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_
#define BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_

#include <set>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// In lockstep all ranks take the same time for a step; what tells them apart is how much of it
// they do not wait. The median is the lower one, so that of two ranks the slower can be told.
class SlowRankDetector {
 public:
  // Reported from `ratio` times the median on.
  explicit SlowRankDetector(double ratio) : ratio_(ratio) {}

  // Ranks that have become slow since the last look: each once, and again only after it was
  // within half of the margin for a while. `beats` of one attempt, a rank each; ranks without
  // busy_seconds yet make the answer empty.
  std::vector<v1::SlowRank> Look(std::span<const v1::Heartbeat> beats);

 private:
  const double ratio_;
  std::set<int> slow_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SLOW_RANK_DETECTOR_H_
