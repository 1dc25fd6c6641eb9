// Strata with one unit joined to others, so that their unit adds to the error of an effect.
//
// A stratum with one unit has the same value in every resample: a corpus with many such strata
// would seem to have hardly any error. Collapsed with others it is drawn like any unit. What the
// strata differ by in the mean then counts as error too: the variance is rather too large than too
// small (Cochran, Sampling Techniques, 1977, section 5A.12).
#ifndef BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_
#define BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_

#include <span>
#include <vector>

#include "evaluation/statistics/paired_bootstrap.h"

namespace braid {

// The same effects with fewer strata. Strata can become one if, in each of their terms and for
// every seed, they have the same coefficient for each unit of denominator, as domains of one group
// have whose coefficients are their shares of its tokens: a / A * x / a + b / A * y / b =
// (a + b) / A * (x + y) / (a + b). Those with one unit become one; one that is alone joins the
// smallest other that it can. Without such, it stays.
//
// Requires the same strata with the same numbers of units for all seeds.
std::vector<SeedMeasurement> CollapseSingleUnits(std::span<const SeedMeasurement> seeds);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_COLLAPSED_STRATA_H_
