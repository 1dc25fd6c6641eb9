// The curves of a report, from the metrics of runs: pure arithmetic.
#ifndef BRAID_REPORT_RUN_CURVES_H_
#define BRAID_REPORT_RUN_CURVES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"
#include "report/plot_series.h"

namespace braid {

// Mean over a centred window of `width` points, less towards the ends. A value that is not finite
// is NaN, and is left out of other windows together with its counterpart, so that all stay
// symmetric.
std::vector<PlotPoint> Smooth(std::span<const PlotPoint> points, int64_t width);

// At most `count` points: the mean of the finite points of each of `count` equal pieces.
std::vector<PlotPoint> Thin(std::span<const PlotPoint> points, int64_t count);

// At most 2 `count` points: of each of `count` equal pieces the least and the largest in the order
// in which they occur, so that no spike is lost. A piece without a finite value is one NaN.
std::vector<PlotPoint> ThinExtremes(std::span<const PlotPoint> points, int64_t count);

// The loss without the first segment over tokens, every step.
std::vector<PlotPoint> LossCurve(std::span<const v1::StepMetrics> metrics);

// Dense minus MoE loss at the same step over the tokens of that step.
std::vector<PlotPoint> LossDifference(std::span<const v1::StepMetrics> dense,
                                      std::span<const v1::StepMetrics> moe);

// Smoothed by a 40th of its length and thinned to what a plot can show.
std::vector<PlotPoint> ForPlot(std::span<const PlotPoint> points);

// Mean of y over the last tenth of the tokens (x); NaN without any finite y there.
double LateMean(std::span<const PlotPoint> points);

// Median of a field over the steps where it is finite and not zero, which stands for what was not
// measured; NaN without any.
double Median(std::span<const v1::StepMetrics> metrics, double (v1::StepMetrics::*value)() const);

// Of tokens_per_second.
double MedianSpeed(std::span<const v1::StepMetrics> metrics);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_CURVES_H_
