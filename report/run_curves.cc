#include "report/run_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "report/plot_series.h"
#include "runs/main_figures.h"

namespace braid {
namespace {

constexpr int64_t kPlotPoints = 300;

// Returns the mean of the finite points; the middle and NaN if there are none.
PlotPoint MeanOfPiece(std::span<const PlotPoint> piece) {
  PlotPoint mean;
  double count = 0;
  for (const PlotPoint& point : piece) {
    if (!std::isfinite(point.y)) continue;
    mean = {mean.x + point.x, mean.y + point.y};
    ++count;
  }
  if (count > 0) return {mean.x / count, mean.y / count};
  return {(piece.front().x + piece.back().x) / 2, kNan};
}

}  // namespace

std::vector<PlotPoint> Smooth(std::span<const PlotPoint> points, int64_t width) {
  const int64_t n = std::ssize(points);
  std::vector<PlotPoint> smooth(points.begin(), points.end());
  for (int64_t i = 0; i < n; ++i) {
    double sum = points[i].y;
    int64_t count = 1;
    // The window stays symmetric up to the ends, since an asymmetric one would bend a falling
    // curve.
    for (int64_t k = 1; k <= std::min({width / 2, i, n - 1 - i}); ++k) {
      const double pair = points[i - k].y + points[i + k].y;
      if (!std::isfinite(pair)) continue;
      sum += pair;
      count += 2;
    }
    smooth[i].y = std::isfinite(points[i].y) ? sum / static_cast<double>(count) : kNan;
  }
  return smooth;
}

std::vector<PlotPoint> Thin(std::span<const PlotPoint> points, int64_t count) {
  const int64_t n = std::ssize(points);
  if (n <= count) return {points.begin(), points.end()};
  std::vector<PlotPoint> thin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * n / count;
    const auto piece = points.subspan(start, (i + 1) * n / count - start);
    thin.push_back(MeanOfPiece(piece));
  }
  return thin;
}

std::vector<PlotPoint> ThinExtremes(std::span<const PlotPoint> points, int64_t count) {
  const int64_t n = std::ssize(points);
  if (n <= 2 * count) return {points.begin(), points.end()};
  std::vector<PlotPoint> thin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * n / count;
    const auto piece = points.subspan(start, (i + 1) * n / count - start);
    const PlotPoint* least = nullptr;
    const PlotPoint* largest = nullptr;
    for (const PlotPoint& point : piece) {
      if (!std::isfinite(point.y)) continue;
      if (!least || point.y < least->y) least = &point;
      if (!largest || point.y > largest->y) largest = &point;
    }
    if (!least) {
      thin.push_back({piece.front().x, kNan});
      continue;
    }
    thin.push_back(*std::min(least, largest));
    if (least != largest) thin.push_back(*std::max(least, largest));
  }
  return thin;
}

std::vector<PlotPoint> LossCurve(std::span<const v1::StepMetrics> metrics) {
  std::vector<PlotPoint> curve;
  for (const v1::StepMetrics& step : metrics) {
    curve.push_back({static_cast<double>(step.num_tokens()), MainLoss(step)});
  }
  return curve;
}

std::vector<PlotPoint> ValidationCurve(std::span<const v1::StepMetrics> metrics) {
  std::vector<PlotPoint> curve;
  for (const v1::StepMetrics& step : metrics) {
    if (!step.has_validation()) continue;
    curve.push_back({static_cast<double>(step.num_tokens()), MainLoss(step.validation())});
  }
  return curve;
}

std::vector<PlotPoint> LossDifference(std::span<const v1::StepMetrics> dense,
                                      std::span<const v1::StepMetrics> moe) {
  std::map<int64_t, double> dense_loss;
  for (const v1::StepMetrics& step : dense) dense_loss[step.step()] = MainLoss(step);
  std::vector<PlotPoint> difference;
  for (const v1::StepMetrics& step : moe) {
    const auto found = dense_loss.find(step.step());
    if (found == dense_loss.end()) continue;
    difference.push_back({static_cast<double>(step.num_tokens()), found->second - MainLoss(step)});
  }
  return difference;
}

std::vector<PlotPoint> ForPlot(std::span<const PlotPoint> points) {
  // The points are thinned first, so that smoothing takes the same time for long runs.
  const std::vector<PlotPoint> thin = Thin(points, 4 * kPlotPoints);
  const int64_t width = std::ssize(thin) / 40;
  const std::vector<PlotPoint> smooth = Smooth(thin, width);
  // The window shrinks towards the ends, so that the last points would be as noisy as the raw ones.
  return Thin(std::span(smooth).subspan(width / 4, smooth.size() - 2 * (width / 4)), kPlotPoints);
}

double LateMean(std::span<const PlotPoint> points) {
  if (points.empty()) return kNan;
  const double start = 0.9 * points.back().x;
  const auto late = std::find_if(points.begin(), points.end() - 1,
                                 [&](const PlotPoint& point) { return point.x > start; });
  return MeanOfPiece(points.subspan(late - points.begin())).y;
}

double Median(std::span<const v1::StepMetrics> metrics, double (v1::StepMetrics::*value)() const) {
  std::vector<double> values;
  for (const v1::StepMetrics& step : metrics) {
    const double number = (step.*value)();
    if (std::isfinite(number) && number != 0) values.push_back(number);
  }
  if (values.empty()) return kNan;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianSpeed(std::span<const v1::StepMetrics> metrics) {
  return Median(metrics, &v1::StepMetrics::tokens_per_second);
}

}  // namespace braid
