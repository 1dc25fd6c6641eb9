// Collapses strata with a single unit, so that the unit contributes to the error of an effect.
//
// A stratum with one unit has the same value in every resample, so a corpus with many such strata
// would appear to have hardly any error. When strata are collapsed, their units are drawn like any
// others. The differences between the means of the strata then also count as error, so the variance
// is rather too large than too small (Cochran, Sampling Techniques, 1977, section 5A.12).
#ifndef BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_
#define BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_

#include <span>
#include <vector>

#include "evaluation/statistics/paired_bootstrap.h"

namespace braid {

// Returns the same effects with fewer strata. Strata can be collapsed if, in each of their terms
// and for every seed, they have the same coefficient per unit of denominator. This holds for the
// domains of a group whose coefficients are their shares of its tokens: a / A * x / a + b / A * y /
// b = (a + b) / A * (x + y) / (a + b). All strata of one unit are collapsed together; a single one
// is collapsed with the smallest compatible stratum, or stays if there is none.
//
// Requires the same strata with the same numbers of units for all seeds.
std::vector<SeedMeasurement> CollapseSingleUnits(std::span<const SeedMeasurement> seeds);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_
