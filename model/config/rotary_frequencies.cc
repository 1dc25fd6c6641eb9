#include "model/config/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace braid {
namespace {

double Scaled(double frequency, const v1::RopeScaling& scaling) {
  if (scaling.type() == v1::LINEAR_ROPE) return frequency / scaling.factor();
  if (scaling.type() != v1::LLAMA3_ROPE) return frequency;
  const double low = scaling.low_frequency_factor(), high = scaling.high_frequency_factor();
  const double turns = scaling.original_length() * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return kept * frequency + (1 - kept) * frequency / scaling.factor();
}

}  // namespace

std::vector<double> RotaryFrequencies(int64_t head_width, double theta,
                                      const v1::RopeScaling& scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_width; i += 2) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(head_width);
    frequencies.push_back(Scaled(std::pow(theta, exponent), scaling));
  }
  return frequencies;
}

}  // namespace braid
