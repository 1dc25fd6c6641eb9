// AdamW (Loshchilov, Hutter; arXiv 1711.05101, Algorithm 2) on flat arrays.
#ifndef BRAID_TRAINER_ADAMW_H_
#define BRAID_TRAINER_ADAMW_H_

#include <cstdint>
#include <span>

namespace braid {

struct AdamwSettings {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

// A parameter, or a part of one, with its gradient and moments. All spans have the same size.
struct AdamwParameter {
  std::span<float> value;
  std::span<const float> gradient;
  std::span<float> m;       // first moment
  std::span<float> v;       // second moment
  bool decay = false;       // subject to weight decay
  double rate_factor = 1;   // scales the learning rate of updates
  double decay_factor = 1;  // scales that of weight decay
};

// Performs update `step` (from 1) of all parameters with g = gradient_factor * gradient, in one
// pass over memory, where rate = learning_rate * rate_factor:
//   value *= 1 - learning_rate * decay_factor * weight_decay   (when decay)
//   m = beta1 m + (1-beta1) g,  v = beta2 v + (1-beta2) g^2
//   value -= rate * m/(1-beta1^step) / (sqrt(v/(1-beta2^step)) + epsilon)
// Each element depends only on itself: the result depends neither on the number of threads nor on
// how parameters are split.
void AdamwStep(const AdamwSettings& settings, double learning_rate, int64_t step,
               double gradient_factor, std::span<const AdamwParameter> parameters);

}  // namespace braid

#endif  // BRAID_TRAINER_ADAMW_H_
