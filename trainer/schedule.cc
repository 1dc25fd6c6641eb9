#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace braid {

double LearningRate(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  const double decay_steps =
      static_cast<double>(std::max<int64_t>(s.num_steps - s.warmup_steps, 1));
  const double progress = std::min(1.0, static_cast<double>(step - s.warmup_steps) / decay_steps);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return s.peak * (s.final_ratio + (1.0 - s.final_ratio) * cosine);
}

int ActiveExperts(const ExpertGrowth& growth, int64_t step) {
  const double grown = (growth.last - growth.first) * static_cast<double>(step) /
                       static_cast<double>(std::max<int64_t>(growth.steps, 1));
  return std::min(growth.first + static_cast<int>(std::lround(grown)), growth.last);
}

}  // namespace braid
