// Computes the curves of a report from the metrics of runs. All functions are pure.
#ifndef BRAID_REPORT_RUN_CURVES_H_
#define BRAID_REPORT_RUN_CURVES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"
#include "report/plot_series.h"

namespace braid {

// Returns the mean over a centered window of `width` points, which is narrower towards the ends.
// The result is NaN where the value is not finite. Other windows leave that value out together with
// its counterpart, so that they stay symmetric.
std::vector<PlotPoint> Smooth(std::span<const PlotPoint> points, int64_t width);

// Returns at most `count` points: the means of the finite points in `count` equal intervals.
std::vector<PlotPoint> Thin(std::span<const PlotPoint> points, int64_t count);

// Returns at most 2 * `count` points: the minimum and the maximum of each of `count` equal
// intervals, in the order in which they occur, so that no spike is lost. An interval without a
// finite value gives one NaN.
std::vector<PlotPoint> ThinExtremes(std::span<const PlotPoint> points, int64_t count);

// Returns MainLoss (runs/main_figures.h) over tokens, for every step.
std::vector<PlotPoint> LossCurve(std::span<const v1::StepMetrics> metrics);

// Returns MainLoss of every validation over tokens.
std::vector<PlotPoint> ValidationCurve(std::span<const v1::StepMetrics> metrics);

// Returns the dense minus the MoE loss of the same step, over the tokens of that step.
std::vector<PlotPoint> LossDifference(std::span<const v1::StepMetrics> dense,
                                      std::span<const v1::StepMetrics> moe);

// Returns the points smoothed over a 40th of their number and thinned to what a plot can show.
std::vector<PlotPoint> ForPlot(std::span<const PlotPoint> points);

// Returns the mean of y over the last tenth of the tokens (x); NaN without a finite y there.
double LateMean(std::span<const PlotPoint> points);

// Returns the median of a field over the steps where it is finite and not zero; zero means that it
// was not measured. NaN without such steps.
double Median(std::span<const v1::StepMetrics> metrics, double (v1::StepMetrics::*value)() const);

// Returns the median of tokens_per_second.
double MedianSpeed(std::span<const v1::StepMetrics> metrics);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_CURVES_H_
