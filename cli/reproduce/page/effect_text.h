// Effects as the page writes them.
#ifndef BRAID_CLI_REPRODUCE_PAGE_EFFECT_TEXT_H_
#define BRAID_CLI_REPRODUCE_PAGE_EFFECT_TEXT_H_

#include <string>

#include "cli/reproduce/paired_bootstrap.h"

namespace braid {

// Three digits, never "-0.000"; a dash when not finite.
std::string EffectNumber(double value);

// Whether there is one, with finite ends.
bool HasInterval(const EffectEstimate& estimate);

// "[0.091, 0.124]"; empty without an interval.
std::string IntervalText(const EffectEstimate& estimate);

}  // namespace braid

#endif  // BRAID_CLI_REPRODUCE_PAGE_EFFECT_TEXT_H_
