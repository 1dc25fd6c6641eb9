// Figures of the series of a claim.
#ifndef BRAID_REPRODUCE_SERIES_FIGURES_H_
#define BRAID_REPRODUCE_SERIES_FIGURES_H_

#include <span>
#include <string>

#include "reproduce/claim_series.h"

namespace braid {

// Returns the figures with their names: line charts, bar charts, and all heat maps together on one
// scale. Series with the same name have the same color in all figures. Figures without a finite
// value are left out.
std::string RenderSeries(std::span<const ClaimSeries> series);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SERIES_FIGURES_H_
