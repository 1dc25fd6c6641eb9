#include "evaluation/utilization.h"

#include <algorithm>

#include "braid/v1/analysis.pb.h"

namespace braid {
namespace {

v1::UtilizationPoint PointOf(const v1::StepMetrics& step, const v1::LayerRouting& layer) {
  v1::UtilizationPoint point;
  point.set_step(step.step());
  point.set_tokens(step.num_tokens());
  point.set_layer(layer.layer());
  point.set_effective_experts(layer.effective_experts());
  point.set_active_experts(layer.active_experts());
  point.set_entropy(layer.entropy());
  return point;
}

// Returns the steps at which routing was measured.
std::vector<const v1::StepMetrics*> MeasuredSteps(std::span<const v1::StepMetrics> metrics,
                                                  int64_t last_step) {
  std::vector<const v1::StepMetrics*> measured;
  for (const v1::StepMetrics& step : metrics) {
    if (step.routing_size() > 0 && step.step() <= last_step) measured.push_back(&step);
  }
  return measured;
}

}  // namespace

std::vector<v1::UtilizationPoint> UtilizationOf(std::span<const v1::StepMetrics> metrics,
                                                std::span<const int> layers, int64_t last_step,
                                                int64_t max_steps) {
  const std::vector<const v1::StepMetrics*> measured = MeasuredSteps(metrics, last_step);
  const int64_t found = static_cast<int64_t>(measured.size());
  const int64_t count = std::min(found, max_steps);
  std::vector<v1::UtilizationPoint> points;
  for (int64_t i = 0; i < count; ++i) {
    const v1::StepMetrics& step = *measured[count == 1 ? found - 1 : i * (found - 1) / (count - 1)];
    for (const v1::LayerRouting& layer : step.routing()) {
      if (std::ranges::find(layers, layer.layer()) == layers.end()) continue;
      points.push_back(PointOf(step, layer));
    }
  }
  return points;
}

}  // namespace braid
