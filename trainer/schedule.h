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

// Growth of the number of active experts from `first` to `last` over `steps` steps.
struct ExpertGrowth {
  int first = 0;
  int last = 0;
  int64_t steps = 0;
};

// Returns the number of active experts of 0-based step t: first + (last - first) t / steps, rounded
// to the nearest number and at most `last`.
int ActiveExperts(const ExpertGrowth& growth, int64_t step);

}  // namespace braid

#endif  // BRAID_TRAINER_SCHEDULE_H_
