// Curves over training, averaged over seeds. In all of them x is tokens, unless noted otherwise,
// and a curve has no values if no seed has the data.
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

// Maximum number of points of a curve.
inline constexpr int64_t kCurvePoints = 100;

// Returns the mean at each x that all curves have. x must be ascending in each.
std::vector<PlotPoint> MeanCurve(std::span<const std::vector<PlotPoint>> curves);

// Returns the training loss of an arm in an order without first segments, in nats per
// token, smoothed over one fortieth of the run.
ClaimSeries LossCurveOf(const Evidence& evidence, const std::string& arm,
                        const SeriesFigure& figure, v1::OrderMode order = v1::SIMILARITY);

// Returns the loss of the baseline minus that of the arm at the same steps, smoothed likewise.
ClaimSeries GainCurveOf(const Evidence& evidence, const std::string& baseline,
                        const std::string& arm, const SeriesFigure& figure);

// Returns the share of the experts in use (arm_statistics.h), averaged over layers.
ClaimSeries UtilizationCurveOf(const Evidence& evidence, const std::string& arm,
                               const SeriesFigure& figure);

// Returns the loss of the baseline minus that of the arm for each tenth of the run; x is the middle
// of the tenth in percent of the run.
ClaimSeries GainByTenthsOf(const Evidence& evidence, const std::string& baseline,
                           const std::string& arm, v1::OrderMode order, const std::string& name,
                           const SeriesFigure& figure);

// Returns the validation loss of the baseline minus that of the arm, without first segments and in
// the mean over domains, at every validation that both have; x is percent of the run.
ClaimSeries ValidationGainOf(const Evidence& evidence, const SignedArm& baseline,
                             const SignedArm& arm, const std::string& name,
                             const SeriesFigure& figure);

}  // namespace braid

#endif  // BRAID_REPRODUCE_TRAINING_CURVES_H_
