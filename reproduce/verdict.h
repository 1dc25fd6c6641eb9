// The rule that turns an effect and its interval into a verdict; docs/reproduction.md has the
// reasons. Nothing here may depend on results.
#ifndef BRAID_REPRODUCE_VERDICT_H_
#define BRAID_REPRODUCE_VERDICT_H_

#include <span>
#include <string>

#include "evaluation/statistics/paired_bootstrap.h"

namespace braid {

enum class Verdict {
  kShown,
  kNotShown,
  kInconclusive,
  // The runs that it needs were not made.
  kNotMeasured,
};

// "shown", "not shown", "inconclusive", "not measured".
std::string VerdictName(Verdict verdict);

// What is claimed of an effect.
enum class EffectRule {
  // Above 0. Shown: the interval is above 0. Not shown: it is below `margin`, so that no effect
  // worth having is left.
  kPositive,
  // About 0. Shown: the interval is within +-margin. Not shown: it is wholly outside.
  kEquivalent,
  // Not below -margin. Shown: the interval is above -margin. Not shown: it is below it.
  kNotInferior,
};

struct VerdictRule {
  EffectRule kind = EffectRule::kPositive;
  // Greater than 0.
  double margin = 0;
  // What an interval of one seed is widened by on both sides before it is judged, because it
  // knows nothing of how seeds differ.
  double single_seed_allowance = 0;
};

// The rule's allowance where the estimate is of one seed, else 0.
double SeedAllowance(const EffectEstimate& estimate, const VerdictRule& rule);

// Inconclusive when neither condition holds, or without an interval.
Verdict Judge(const EffectEstimate& estimate, const VerdictRule& rule);

// Of a claim all of whose parts are claimed: not shown if one part is not shown; shown if all
// are; not measured if all are not measured; else inconclusive.
Verdict JudgeAll(std::span<const Verdict> parts);

}  // namespace braid

#endif  // BRAID_REPRODUCE_VERDICT_H_
