#include "cli/reproduce/page/effect_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/report/html_text.h"

namespace braid {

std::string EffectNumber(double value) {
  return FormatFixed(std::abs(value) < 0.0005 ? 0.0 : value, 3);
}

bool HasInterval(const EffectEstimate& estimate) {
  return estimate.has_interval && std::isfinite(estimate.low) && std::isfinite(estimate.high);
}

std::string IntervalText(const EffectEstimate& estimate) {
  if (!HasInterval(estimate)) return "";
  return absl::StrCat("[", EffectNumber(estimate.low), ", ", EffectNumber(estimate.high), "]");
}

}  // namespace braid
