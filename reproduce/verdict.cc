#include "reproduce/verdict.h"

#include <algorithm>

#include "base/check.h"

namespace braid {
namespace {

Verdict Decide(bool shown, bool excluded) {
  if (excluded) return Verdict::kNotShown;
  return shown ? Verdict::kShown : Verdict::kInconclusive;
}

}  // namespace

std::string VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kShown:
      return "shown";
    case Verdict::kNotShown:
      return "not shown";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kNotMeasured:
      return "not measured";
  }
  return "";
}

double SeedAllowance(const EffectEstimate& estimate, const VerdictRule& rule) {
  return estimate.by_seed.size() < 2 ? rule.single_seed_allowance : 0;
}

Verdict Judge(const EffectEstimate& estimate, const VerdictRule& rule) {
  BRAID_CHECK(rule.margin > 0) << "margin " << rule.margin;
  if (!estimate.has_interval) return Verdict::kInconclusive;
  const double allowance = SeedAllowance(estimate, rule);
  const double low = estimate.low - allowance;
  const double high = estimate.high + allowance;
  switch (rule.kind) {
    case EffectRule::kPositive:
      return Decide(low > 0, high < rule.margin);
    case EffectRule::kEquivalent:
      return Decide(low > -rule.margin && high<rule.margin, low> rule.margin ||
                    high < -rule.margin);
    case EffectRule::kNotInferior:
      return Decide(low > -rule.margin, high < -rule.margin);
  }
  return Verdict::kInconclusive;
}

Verdict JudgeAll(std::span<const Verdict> parts) {
  const auto count = [parts](Verdict verdict) {
    return static_cast<size_t>(std::ranges::count(parts, verdict));
  };
  if (count(Verdict::kNotShown) > 0) return Verdict::kNotShown;
  if (count(Verdict::kNotMeasured) == parts.size()) return Verdict::kNotMeasured;
  return count(Verdict::kShown) == parts.size() ? Verdict::kShown : Verdict::kInconclusive;
}

}  // namespace braid
