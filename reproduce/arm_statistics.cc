#include "reproduce/arm_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/check.h"
#include "runs/main_figures.h"

namespace braid {

bool InLastTenth(int64_t step, int64_t num_steps) { return 10 * step > 9 * num_steps; }

std::vector<double> SmoothedLosses(std::span<const v1::StepMetrics> metrics, int64_t half_width) {
  const int64_t count = static_cast<int64_t>(metrics.size());
  std::vector<double> sums(count + 1, 0.0);
  for (int64_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + metrics[i].loss_after_first_segment();
  std::vector<double> smoothed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = std::max<int64_t>(i - half_width, 0);
    const int64_t end = std::min(i + half_width + 1, count);
    smoothed.push_back((sums[end] - sums[begin]) / static_cast<double>(end - begin));
  }
  return smoothed;
}

double FinalLoss(std::span<const v1::StepMetrics> metrics) {
  BRAID_CHECK(!metrics.empty()) << "FinalLoss requires at least one step";
  const int64_t num_steps = metrics.back().step();
  double sum = 0;
  int64_t count = 0;
  for (const v1::StepMetrics& step : metrics) {
    if (!InLastTenth(step.step(), num_steps)) continue;
    sum += MainLoss(step);
    ++count;
  }
  return sum / static_cast<double>(count);
}

std::optional<int64_t> TokensToReach(std::span<const v1::StepMetrics> metrics, double target_loss,
                                     int64_t half_width) {
  const std::vector<double> smoothed = SmoothedLosses(metrics, half_width);
  const auto last_above = std::find_if(smoothed.rbegin(), smoothed.rend(),
                                       [&](double loss) { return !(loss <= target_loss); });
  const size_t first = static_cast<size_t>(smoothed.rend() - last_above);
  if (first == smoothed.size()) return std::nullopt;
  return metrics[first].num_tokens();
}

std::vector<double> GainByTenths(std::span<const v1::StepMetrics> baseline,
                                 std::span<const v1::StepMetrics> model) {
  constexpr int64_t kParts = 10;
  std::map<int64_t, double> losses;
  for (const auto& step : baseline) losses[step.step()] = step.loss_after_first_segment();
  std::vector<double> sums(kParts, 0.0);
  std::vector<int64_t> counts(kParts, 0);
  for (const v1::StepMetrics& step : model) {
    const auto paired = losses.find(step.step());
    if (paired == losses.end()) continue;
    const int64_t part = (step.step() - 1) * kParts / model.back().step();
    sums[part] += paired->second - step.loss_after_first_segment();
    ++counts[part];
  }
  for (int64_t i = 0; i < kParts; ++i) sums[i] /= static_cast<double>(counts[i]);
  return sums;
}

std::optional<double> LogStepSeconds(const ArmResult& result) {
  std::vector<double> seconds;
  for (const v1::StepMetrics& step : result.metrics) {
    if (step.step_seconds() > 0) seconds.push_back(step.step_seconds());
  }
  if (seconds.empty()) return std::nullopt;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return std::log(*middle);
}

std::optional<double> LogStepWork(const ArmResult& result) {
  double work = 0, steps = 0;
  for (const v1::StepMetrics& step : result.metrics) {
    if (step.gflops() <= 0) continue;  // it had no data, for instance
    work += step.gflops() * step.step_seconds();
    ++steps;
  }
  if (!(work > 0)) return std::nullopt;
  return std::log(work / steps);
}

std::optional<double> LogPeakMemory(const ArmResult& result) {
  double peak = 0;
  for (const v1::StepMetrics& step : result.metrics) peak = std::max(peak, step.peak_resident_mb());
  if (!(peak > 0)) return std::nullopt;
  return std::log(peak);
}

double ActiveShareOf(const v1::StepMetrics& step, int32_t num_experts) {
  int64_t active = 0;
  for (const v1::LayerRouting& layer : step.routing()) active += layer.active_experts();
  return static_cast<double>(active) / (num_experts * step.routing_size());
}

std::optional<double> ActiveShare(const ArmResult& result) {
  if (result.metrics.empty() || result.num_experts < 2) return std::nullopt;
  const int64_t num_steps = result.metrics.back().step();
  double sum = 0;
  int64_t count = 0;
  for (const v1::StepMetrics& step : result.metrics) {
    if (!InLastTenth(step.step(), num_steps) || step.routing().empty()) continue;
    sum += ActiveShareOf(step, result.num_experts);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::vector<double> DivergenceByLayer(const ArmResult& result) {
  if (result.routing.size() < 2) return {};
  std::vector<double> divergence;
  for (size_t layer = 0; layer < result.routing.front().layers.size(); ++layer) {
    std::vector<std::vector<double>> weights;
    for (const DomainWeights& domain : result.routing) weights.push_back(domain.layers[layer]);
    divergence.push_back(JensenShannonDivergence(weights));
  }
  return divergence;
}

std::vector<DomainLoss> LossByDomain(const HeldoutScore& score) {
  std::vector<DomainLoss> losses;
  for (const DomainWindows& domain : score.domains) {
    DomainLoss& entry = losses.emplace_back(DomainLoss{.domain = domain.domain});
    for (const WindowLoss& window : domain.windows) {
      entry.nats += window.later_loss;
      entry.tokens += window.later_tokens;
    }
  }
  return losses;
}

double MeanLoss(const HeldoutScore& score) {
  double nats = 0;
  int64_t tokens = 0;
  for (const DomainLoss& domain : LossByDomain(score)) {
    nats += domain.nats;
    tokens += domain.tokens;
  }
  return tokens > 0 ? nats / static_cast<double>(tokens) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace braid
