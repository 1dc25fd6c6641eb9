#include "runs/pace.h"

#include <algorithm>
#include <numeric>

namespace braid {

void Pace::Add(const v1::StepMetrics& step) {
  step_ = step.step();
  if (!(step.step_seconds() > 0)) return;
  seconds_.push_back(step.step_seconds());
  if (seconds_.size() > kSteps) seconds_.pop_front();
}

double Pace::SecondsLeft(int64_t num_steps) const {
  if (seconds_.empty()) return 0;
  const double sum = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  const int64_t left = std::max<int64_t>(0, num_steps - step_);
  return sum / static_cast<double>(seconds_.size()) * static_cast<double>(left);
}

}  // namespace braid
