// Effects as they are written for people, on the terminal, in sentences and on the page.
#ifndef BRAID_REPRODUCE_EFFECT_TEXT_H_
#define BRAID_REPRODUCE_EFFECT_TEXT_H_

#include <string>

#include "evaluation/statistics/paired_bootstrap.h"

namespace braid {

// Three digits, never "-0.000"; a dash when not finite.
std::string EffectNumber(double value);

// The same with its sign: "+0.083".
std::string SignedEffectNumber(double value);

// Whether there is one, with finite ends.
bool HasInterval(const EffectEstimate& estimate);

// "[0.091, 0.124]"; empty without an interval.
std::string IntervalText(const EffectEstimate& estimate);

// "0.106 [0.090, 0.122] nats per token"; without brackets where there is no interval.
std::string EffectText(const EffectEstimate& estimate, const std::string& unit);

}  // namespace braid

#endif  // BRAID_REPRODUCE_EFFECT_TEXT_H_
