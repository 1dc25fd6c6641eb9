// The learning rate as a pure function of the step.
#ifndef BRAID_TRAINER_SCHEDULE_H_
#define BRAID_TRAINER_SCHEDULE_H_

#include <cstdint>

#include "braid/v1/training.pb.h"

namespace braid {

struct Schedule {
  v1::LearningRateSchedule kind = v1::COSINE;
  double peak = 0;           // learning rate after warm-up
  int64_t warmup_steps = 0;  // W
  int64_t decay_steps = 0;   // D, of WSD
  int64_t num_steps = 0;     // T
  double final_ratio = 0;    // r, final rate over peak
};

// Returns the schedule of a resolved spec.
Schedule ScheduleOf(const v1::RunSpec& resolved);

// Returns the rate of 0-based step t: peak * (t+1)/W while t < W. After that, with progress p from
// 0 at the beginning to 1 at T:
//
//   COSINE               peak * (r + (1-r) * (1 + cos(pi p)) / 2), p from W
//   LINEAR               peak * (1 - (1-r) * p), p from W
//   WSD                  peak up to T-D, then peak * (1 - (1-r) * sqrt(p)), p from T-D (arXiv
//                        2405.18392, section 4)
//   CONSTANT             peak
//   INVERSE_SQUARE_ROOT  peak * max(r, sqrt(W / (t+1))) (arXiv 1706.03762, equation 3)
//
// The rate is constant from T on, except for INVERSE_SQUARE_ROOT.
double LearningRate(const Schedule& schedule, int64_t step);

// Returns the coefficient of the penalty of the gate RELU after a step in which tokens used
// `active` experts on average (arXiv 2412.14711, section 3.2): times token.l1_factor when these
// were more than token.active_experts, but not above 1e30; divided by it, but not below 1e-30, when
// they were fewer. Unchanged with other gates.
double NextGatePenalty(double coefficient, double active, const v1::TokenRouting& token);

}  // namespace braid

#endif  // BRAID_TRAINER_SCHEDULE_H_
