// The durations of recent steps, from which the limit for a hang is derived.
#ifndef BRAID_CONTROL_SUPERVISION_STEP_TIMES_H_
#define BRAID_CONTROL_SUPERVISION_STEP_TIMES_H_

#include <deque>

#include "braid/v1/training.pb.h"

namespace braid {

// The step times of the last 100 steps of one kind: dense steps say nothing about how long a step
// with experts takes, so the first step of the other kind discards them.
class StepTimes {
 public:
  void Add(const v1::StepMetrics& step);

  bool empty() const { return seconds_.empty(); }

  // Returns max(hang_seconds, hang_steps * 99th percentile of the step times).
  double HangLimit(const v1::SupervisionConfig& config) const;

 private:
  std::deque<double> seconds_;
  bool upcycled_ = false;  // the kind of the steps
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_STEP_TIMES_H_
