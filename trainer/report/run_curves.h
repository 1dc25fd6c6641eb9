// The curves of a report, from the metrics of runs: pure arithmetic.
#ifndef BRAID_TRAINER_REPORT_RUN_CURVES_H_
#define BRAID_TRAINER_REPORT_RUN_CURVES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "braid/v1/training.pb.h"
#include "trainer/report/report_run.h"
#include "trainer/report/svg_plot.h"

namespace braid {

// Mean over a centred window of `width` points; values that are not finite are left
// out, and a window without any is NaN.
std::vector<PlotPoint> Smooth(std::span<const PlotPoint> points, int64_t width);

// At most `count` points: the mean of each of `count` equal pieces.
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

// Mean of y over the last tenth of the points; NaN without any.
double LateMean(std::span<const PlotPoint> points);

// How the loss of one run compares with that of a base.
struct LossComparison {
  // Tokens that both have seen.
  double common_tokens = 0;
  // Base minus other: mean over the last tenth of the common tokens, nats per token, and the
  // standard error of that mean if steps were independent. Above zero, the other is better.
  double difference = 0;
  double standard_error = 0;
  // Share of the base's tokens after which the other's mean over a window of a tenth of them is
  // first as low as the base's over its last tenth; absent when that never is.
  std::optional<double> share_of_tokens;
};

// Curves over tokens, x ascending; between points the base is linear. Absent when either has no
// finite point or they share no tokens.
std::optional<LossComparison> CompareLoss(std::span<const PlotPoint> base,
                                          std::span<const PlotPoint> other);

// Median of a field over the steps where it is finite; NaN without any.
double Median(std::span<const v1::StepMetrics> metrics, double (v1::StepMetrics::*value)() const);

// Of tokens_per_second.
double MedianSpeed(std::span<const v1::StepMetrics> metrics);

bool IsDense(const v1::RunSpec& spec);

// Indices (dense, MoE) of runs that differ only in their experts: the same data, seed,
// batch and number of steps.
std::vector<std::pair<size_t, size_t>> PairRuns(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_RUN_CURVES_H_
