// How fast a run goes, from its newest steps.
#ifndef BRAID_RUNS_PACE_H_
#define BRAID_RUNS_PACE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "braid/v1/training.pb.h"

namespace braid {

class Pace {
 public:
  // The number of newest steps that count.
  static constexpr size_t kSteps = 20;

  // Adds the next step. A step without a duration only moves the run forward.
  void Add(const v1::StepMetrics& step);

  // Returns the seconds until `num_steps` at the mean duration of the newest steps; 0 when unknown.
  double SecondsLeft(int64_t num_steps) const;

 private:
  int64_t step_ = 0;
  std::deque<double> seconds_;  // durations of the newest steps, oldest first
};

}  // namespace braid

#endif  // BRAID_RUNS_PACE_H_
