#include "inference/weight_noise.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace braid {
namespace {

// Returns the square root of the unbiased variance.
double StandardDeviation(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / std::max(1.0, static_cast<double>(values.size()) - 1));
}

}  // namespace

absl::Status AddNoise(const v1::WeightNoise& noise, LanguageModel& model) {
  if (!(std::isfinite(noise.share()) && noise.share() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("noise.share: got ", noise.share(), ", expected a positive number"));
  }
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.shape.size() < 2) continue;
    const double width = noise.share() * StandardDeviation(parameter.value);
    uint64_t state = Mix64(Mix64(noise.seed(), "weight noise"), parameter.name);
    for (float& value : parameter.value) {
      const double centered = UnitInterval(NextSplitMix64(&state)) - 0.5;
      value = static_cast<float>(value + width * centered);
    }
  }
  return absl::OkStatus();
}

}  // namespace braid
