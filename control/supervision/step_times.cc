#include "control/supervision/step_times.h"

#include <vector>

#include "control/supervision/heartbeat_watch.h"

namespace braid {
namespace {

constexpr size_t kTimedSteps = 100;

}  // namespace

void StepTimes::Add(const v1::StepMetrics& step) {
  // Steps with experts take longer than dense ones, whose times would make them look like hangs.
  if (step.upcycled() != upcycled_) seconds_.clear();
  upcycled_ = step.upcycled();
  seconds_.push_back(step.step_seconds());
  if (seconds_.size() > kTimedSteps) seconds_.pop_front();
}

double StepTimes::HangLimit(const v1::SupervisionConfig& config) const {
  const std::vector<double> seconds(seconds_.begin(), seconds_.end());
  return braid::HangLimit(config, seconds);
}

}  // namespace braid
