// The figures of a claim's series.
#ifndef BRAID_REPRODUCE_SERIES_FIGURES_H_
#define BRAID_REPRODUCE_SERIES_FIGURES_H_

#include <span>
#include <string>

#include "reproduce/claim_series.h"

namespace braid {

// One after the other, each under its name: line charts, bar charts, and all heat maps together on
// one scale. Series of one name have one colour in all figures. Figures without a finite value are
// left out.
std::string RenderSeries(std::span<const ClaimSeries> series);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SERIES_FIGURES_H_
