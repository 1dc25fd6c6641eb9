// Text of effects for terminals, sentences and pages.
#ifndef BRAID_REPRODUCE_EFFECT_TEXT_H_
#define BRAID_REPRODUCE_EFFECT_TEXT_H_

#include <string>

#include "evaluation/statistics/paired_bootstrap.h"

namespace braid {

// Returns a number with three decimals, never "-0.000"; a dash if it is not finite.
std::string EffectNumber(double value);

// Returns the same with a sign: "+0.083".
std::string SignedEffectNumber(double value);

// Returns whether the estimate has an interval with finite ends.
bool HasInterval(const EffectEstimate& estimate);

// Returns "[0.091, 0.124]"; "" without an interval.
std::string IntervalText(const EffectEstimate& estimate);

// Returns "0.106 [0.090, 0.122] nats per token"; without brackets if there is no interval.
std::string EffectText(const EffectEstimate& estimate, const std::string& unit);

}  // namespace braid

#endif  // BRAID_REPRODUCE_EFFECT_TEXT_H_
