#include "control/supervision/slow_rank_detector.h"

#include <algorithm>

namespace braid {
namespace {

// Returns the lower of the two middle values, so that of two ranks the slower one is compared with
// the faster one; 0 when a rank has no busy_seconds.
double LowerMedian(std::span<const v1::Heartbeat> beats) {
  std::vector<double> busy;
  for (const v1::Heartbeat& beat : beats) busy.push_back(beat.busy_seconds());
  std::sort(busy.begin(), busy.end());
  if (busy.empty() || !(busy.front() > 0)) return 0;
  return busy[(busy.size() - 1) / 2];
}

}  // namespace

std::vector<v1::SlowRank> SlowRankDetector::Look(std::span<const v1::Heartbeat> beats) {
  std::vector<v1::SlowRank> found;
  const double median = LowerMedian(beats);
  if (beats.size() < 2 || !(median > 0)) return found;
  for (const v1::Heartbeat& beat : beats) {
    const double ratio = beat.busy_seconds() / median;
    // Halfway back to the median, so that a rank near the limit is not reported again and again.
    const bool recovered = ratio < (1 + ratio_) / 2 && slow_.erase(beat.rank()) > 0;
    if (!recovered && (ratio < ratio_ || !slow_.insert(beat.rank()).second)) continue;
    v1::SlowRank slow;
    slow.set_recovered(recovered);
    slow.set_rank(beat.rank());
    slow.set_host(beat.host());
    slow.set_ratio(ratio);
    slow.set_step(beat.step());
    found.push_back(slow);
  }
  return found;
}

}  // namespace braid
