// Rules that decide the verdict on an effect from its interval; docs/reproduction/protocol.md
// explains them. The rules must not depend on results.
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
  // The required runs do not exist.
  kNotMeasured,
};

// Returns "shown", "not shown", "inconclusive" or "not measured".
std::string VerdictName(Verdict verdict);

// The claim about an effect.
enum class EffectRule {
  // Above 0. Shown: the interval is above 0. Not shown: it is below `margin`, so that no relevant
  // effect is left.
  kPositive,
  // About 0. Shown: the interval is within +-margin. Not shown: it is entirely outside.
  kEquivalent,
  // Not below -margin. Shown: the interval is above -margin. Not shown: it is below it.
  kNotInferior,
};

struct VerdictRule {
  EffectRule kind = EffectRule::kPositive;
  // Greater than 0.
  double margin = 0;
  // Amount by which an interval of one seed is widened on both sides before it is judged, because
  // it does not include the variation between seeds.
  double single_seed_allowance = 0;
};

// Smallest effect of interest in nats per token: 1 % of perplexity.
inline constexpr double kSmallestGain = 0.01;
// Largest difference of two losses that count as equal: 3 % of perplexity.
inline constexpr double kEqualLosses = 0.03;
// Amount in nats per token by which an interval of one seed is widened. It is above the standard
// deviation between seeds in a pilot experiment (0.016).
inline constexpr double kSingleSeedAllowance = 0.02;

// The same for the losses of answers, in nats per answer: the smallest gain of interest, the
// largest difference of losses that count as equal, and the amount for one seed. Two scorings of
// one model vary less between seeds than two models.
inline constexpr VerdictRule kAnswerGain = {EffectRule::kPositive, 0.02, 0.02};
inline constexpr VerdictRule kAnswerNoWorse = {EffectRule::kNotInferior, 0.02, 0.02};
inline constexpr VerdictRule kAnswerEqual = {EffectRule::kEquivalent, 0.02, 0.01};

// The rule for an effect that is claimed to be a lower loss.
inline constexpr VerdictRule kGain = {EffectRule::kPositive, kSmallestGain, kSingleSeedAllowance};
// The rule for a loss that is claimed to be no higher.
inline constexpr VerdictRule kNoWorse = {EffectRule::kNotInferior, kEqualLosses,
                                         kSingleSeedAllowance};

// Returns the allowance of the rule if the estimate is of one seed, otherwise 0.
double SeedAllowance(const EffectEstimate& estimate, const VerdictRule& rule);

// Returns the verdict on an effect: inconclusive if neither condition of the rule holds or there is
// no interval.
Verdict Judge(const EffectEstimate& estimate, const VerdictRule& rule);

// Returns the verdict on a claim that consists of all `parts`: not shown if one part is not shown;
// shown if all are shown; not measured if none was measured; otherwise inconclusive.
Verdict JudgeAll(std::span<const Verdict> parts);

}  // namespace braid

#endif  // BRAID_REPRODUCE_VERDICT_H_
