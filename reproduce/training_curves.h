// Curves over training, averaged over seeds.
#ifndef BRAID_REPRODUCE_TRAINING_CURVES_H_
#define BRAID_REPRODUCE_TRAINING_CURVES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/plot_series.h"
#include "reproduce/claim_series.h"
#include "reproduce/contrasts.h"

namespace braid {

// Of a curve, at most.
inline constexpr int64_t kCurvePoints = 100;

// The mean at each x that all curves have; x ascending in each.
std::vector<PlotPoint> MeanCurve(std::span<const std::vector<PlotPoint>> curves);

// All are without values when no seed has what they need. x is tokens.

// Training loss of an arm in similarity order without first segments, nats per token, smoothed over
// a fortieth of the run.
ClaimSeries LossCurveOf(const Evidence& evidence, const std::string& arm,
                        const SeriesFigure& figure);

// Loss of the baseline minus that of the arm at the same steps, likewise.
ClaimSeries GainCurveOf(const Evidence& evidence, const std::string& baseline,
                        const std::string& arm, const SeriesFigure& figure);

// Share of the experts in use (arm_statistics.h), averaged over layers, where it was measured.
ClaimSeries UtilizationCurveOf(const Evidence& evidence, const std::string& arm,
                               const SeriesFigure& figure);

// Baseline minus arm by tenths of the run; x is the middle of each, in per cent.
ClaimSeries GainByTenthsOf(const Evidence& evidence, const std::string& baseline,
                           const std::string& arm, v1::OrderMode order, const std::string& name,
                           const SeriesFigure& figure);

}  // namespace braid

#endif  // BRAID_REPRODUCE_TRAINING_CURVES_H_
