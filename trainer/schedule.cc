#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runs/schedule_spec.h"

namespace braid {
namespace {

// Divisions would underflow to 0 in the end, and multiplications overflow to infinity, from where
// nothing leads back.
constexpr double kLeastGatePenalty = 1e-30, kGreatestGatePenalty = 1e30;

// Returns the share of the steps from `begin` to T that lies before `step`, 0 to 1.
double ProgressFrom(int64_t begin, int64_t step, const Schedule& s) {
  const double length = static_cast<double>(std::max<int64_t>(s.num_steps - begin, 1));
  return std::clamp(static_cast<double>(step - begin) / length, 0.0, 1.0);
}

// Returns the rate after warm-up, divided by the peak.
double RatioAfterWarmup(const Schedule& s, int64_t step) {
  const double fall = 1.0 - s.final_ratio;
  switch (s.kind) {
    case v1::WSD:
      return 1.0 - fall * std::sqrt(ProgressFrom(s.num_steps - s.decay_steps, step, s));
    case v1::LINEAR:
      return 1.0 - fall * ProgressFrom(s.warmup_steps, step, s);
    case v1::CONSTANT:
      return 1.0;
    case v1::INVERSE_SQUARE_ROOT: {
      const double warmup = static_cast<double>(std::max<int64_t>(s.warmup_steps, 1));
      return std::max(s.final_ratio, std::sqrt(warmup / static_cast<double>(step + 1)));
    }
    default: {
      const double progress = ProgressFrom(s.warmup_steps, step, s);
      return s.final_ratio + fall * (0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    }
  }
}

}  // namespace

Schedule ScheduleOf(const v1::RunSpec& resolved) {
  return {.kind = resolved.optimizer().schedule(),
          .peak = resolved.optimizer().learning_rate(),
          .warmup_steps = WarmupSteps(resolved),
          .decay_steps = DecaySteps(resolved),
          .num_steps = resolved.num_steps(),
          .final_ratio = resolved.optimizer().final_lr_ratio()};
}

double LearningRate(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  return s.peak * RatioAfterWarmup(s, step);
}

double NextGatePenalty(double coefficient, double active, const v1::TokenRouting& token) {
  if (token.gate() != v1::TokenRouting::RELU) return coefficient;
  if (active > token.active_experts()) {
    return std::min(coefficient * token.l1_factor(), kGreatestGatePenalty);
  }
  if (active == token.active_experts()) return coefficient;
  return std::max(coefficient / token.l1_factor(), kLeastGatePenalty);
}

}  // namespace braid
