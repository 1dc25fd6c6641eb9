// The learning rate as a pure function of the step.
#ifndef BRAID_TRAINER_SCHEDULE_H_
#define BRAID_TRAINER_SCHEDULE_H_

#include <cstdint>

namespace braid {

struct Schedule {
  double peak = 0;           // learning rate after warm-up
  int64_t warmup_steps = 0;  // W
  int64_t num_steps = 0;     // T
  double final_ratio = 0;    // rate at step T over peak
};

// Returns the rate of 0-based step t: peak * (t+1)/W while t < W, then a half cosine from peak at W
// to peak * final_ratio at T, constant afterwards.
double LearningRate(const Schedule& schedule, int64_t step);

}  // namespace braid

#endif  // BRAID_TRAINER_SCHEDULE_H_
