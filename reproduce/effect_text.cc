#include "reproduce/effect_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"

namespace braid {

namespace {

double WithoutNegativeZero(double value) { return std::abs(value) < 0.0005 ? 0.0 : value; }

}  // namespace

std::string EffectNumber(double value) { return FormatFixed(WithoutNegativeZero(value), 3); }

std::string SignedEffectNumber(double value) { return FormatSigned(WithoutNegativeZero(value), 3); }

bool HasInterval(const EffectEstimate& estimate) {
  return estimate.has_interval && std::isfinite(estimate.low) && std::isfinite(estimate.high);
}

std::string IntervalText(const EffectEstimate& estimate) {
  if (!HasInterval(estimate)) return "";
  return absl::StrCat("[", EffectNumber(estimate.low), ", ", EffectNumber(estimate.high), "]");
}

std::string EffectText(const EffectEstimate& estimate, const std::string& unit) {
  const std::string interval = IntervalText(estimate);
  return absl::StrCat(EffectNumber(estimate.effect), interval.empty() ? "" : " ", interval, " ",
                      unit);
}

}  // namespace braid
