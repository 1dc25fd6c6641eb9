#include "trainer/spike_detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace braid {
namespace {

constexpr double kDeviationPerMad = 1.4826;
constexpr double kSmallestDeviation = 1e-3;
// A gradient of zeros has no logarithm.
constexpr double kSmallestNorm = 1e-30;
constexpr int kMinimumShareOfWindow = 4;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  // nth_element leaves the smaller half in front; its largest element is the other middle value.
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double LogNorm(double gradient_norm) {
  return gradient_norm > kSmallestNorm ? std::log(gradient_norm) : std::log(kSmallestNorm);
}

void Push(double value, size_t window, std::vector<double>* values) {
  values->push_back(value);
  if (values->size() > window) values->erase(values->begin());
}

}  // namespace

double RobustZScore(std::span<const double> history, double value) {
  BRAID_CHECK(!history.empty());
  if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
  const double median = Median({history.begin(), history.end()});
  std::vector<double> distances;
  for (const double x : history) distances.push_back(std::abs(x - median));
  const double deviation =
      std::max(kDeviationPerMad * Median(std::move(distances)), kSmallestDeviation);
  return (value - median) / deviation;
}

SpikeVerdict JudgeStep(const v1::SpikeConfig& config, const SpikeHistory& history, double loss,
                       double gradient_norm, int64_t num_tokens) {
  SpikeVerdict verdict;
  if (!(config.threshold() > 0) || num_tokens == 0) return verdict;
  // NaN would be taken for a gradient of zeros.
  const double log_norm = std::isfinite(gradient_norm) ? LogNorm(gradient_norm) : gradient_norm;
  const bool finite = std::isfinite(loss) && std::isfinite(gradient_norm);
  const int64_t needed = std::max(1, config.window() / kMinimumShareOfWindow);
  if (std::ssize(history.losses) < needed) {
    verdict.is_spike = !finite;
    return verdict;
  }
  verdict.loss_z = RobustZScore(history.losses, loss);
  verdict.gradient_norm_z = RobustZScore(history.log_norms, log_norm);
  verdict.is_spike =
      verdict.loss_z > config.threshold() || verdict.gradient_norm_z > config.threshold();
  return verdict;
}

v1::LossSpike SpikeOf(const SpikeVerdict& verdict, const v1::StepMetrics& metrics,
                      const v1::SpikeConfig& config) {
  v1::LossSpike spike;
  spike.set_step(metrics.step());
  spike.set_action(config.policy());
  spike.set_loss(metrics.loss());
  spike.set_gradient_norm(metrics.gradient_norm());
  spike.set_loss_z(verdict.loss_z);
  spike.set_gradient_norm_z(verdict.gradient_norm_z);
  return spike;
}

// Only steps that were trained on are remembered. Skipped spikes are left out, so that many of them
// do not raise the median until they pass for normal steps.
void RememberStep(const v1::SpikeConfig& config, double loss, double gradient_norm,
                  SpikeHistory* history) {
  history->num_consecutive = 0;
  if (!(config.threshold() > 0) || !std::isfinite(loss) || !std::isfinite(gradient_norm)) return;
  Push(loss, config.window(), &history->losses);
  Push(LogNorm(gradient_norm), config.window(), &history->log_norms);
}

absl::Status CountSpike(const v1::LossSpike& spike, SpikeHistory* history) {
  if (++history->num_consecutive < kMaxConsecutiveSpikes) return absl::OkStatus();
  const bool finite = std::isfinite(spike.loss()) && std::isfinite(spike.gradient_norm());
  return absl::InternalError(absl::StrCat(
      "step ", spike.step(), ": the ", kMaxConsecutiveSpikes, "th loss spike in a row (loss ",
      spike.loss(), ", gradient norm ", spike.gradient_norm(),
      "), so skipping batches does not help; lower optimizer.learning_rate",
      finite ? ", raise spikes.threshold, or set spikes.policy to CONTINUE" : ""));
}

}  // namespace braid
