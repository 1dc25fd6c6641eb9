#include "trainer/report/run_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace braid {
namespace {

constexpr int64_t kPlotPoints = 300;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Runs of one segment a sequence have nothing after the first; they show all.
double MainLoss(const v1::StepMetrics& step) {
  return step.loss_after_first_segment() != 0 ? step.loss_after_first_segment() : step.loss();
}

double FiniteMean(std::span<const PlotPoint> points) {
  double sum = 0;
  int64_t count = 0;
  for (const PlotPoint& point : points) {
    if (!std::isfinite(point.y)) continue;
    sum += point.y;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kNan;
}

std::vector<PlotPoint> FinitePoints(std::span<const PlotPoint> points) {
  std::vector<PlotPoint> finite;
  for (const PlotPoint& point : points) {
    if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
  }
  return finite;
}

// Linear between points. Requires finite points and an x between the first and the last.
double ValueAt(const std::vector<PlotPoint>& points, double x) {
  const auto after =
      std::lower_bound(points.begin(), points.end(), x,
                       [](const PlotPoint& point, double value) { return point.x < value; });
  if (after == points.begin() || after->x == x) return after->y;
  const PlotPoint& before = *std::prev(after);
  return before.y + (after->y - before.y) * (x - before.x) / (after->x - before.x);
}

std::pair<double, double> MeanAndError(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return {sum / n, n > 1 ? std::sqrt(squares / (n - 1) / n) : kNan};
}

// See LossComparison. Requires finite points.
std::optional<double> ShareOfTokens(const std::vector<PlotPoint>& base,
                                    const std::vector<PlotPoint>& other) {
  const double tokens = base.back().x, window = tokens / 10;
  double sum = 0, count = 0;
  for (const PlotPoint& point : base) {
    if (point.x <= tokens - window) continue;
    sum += point.y;
    ++count;
  }
  const double target = sum / count;
  sum = count = 0;
  for (size_t first = 0, last = 0; last < other.size(); ++last) {
    sum += other[last].y;
    ++count;
    for (; other[first].x <= other[last].x - window; ++first, --count) sum -= other[first].y;
    if (other[last].x >= window && sum / count <= target) return other[last].x / tokens;
  }
  return std::nullopt;
}

}  // namespace

std::vector<PlotPoint> Smooth(std::span<const PlotPoint> points, int64_t width) {
  const int64_t n = std::ssize(points);
  std::vector<PlotPoint> smooth(points.begin(), points.end());
  for (int64_t i = 0; i < n; ++i) {
    // Symmetric up to the ends: a lopsided window would bend a falling curve there.
    const int64_t half = std::min({width / 2, i, n - 1 - i});
    smooth[i].y = FiniteMean(points.subspan(i - half, 2 * half + 1));
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
    thin.push_back({(piece.front().x + piece.back().x) / 2, FiniteMean(piece)});
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
  // Thinned first, so that smoothing a long run costs no more than a short one.
  const std::vector<PlotPoint> thin = Thin(points, 4 * kPlotPoints);
  const int64_t width = std::ssize(thin) / 40;
  const std::vector<PlotPoint> smooth = Smooth(thin, width);
  // The window shrinks towards the ends; its last points would be noise again.
  return Thin(std::span(smooth).subspan(width / 4, smooth.size() - 2 * (width / 4)), kPlotPoints);
}

double LateMean(std::span<const PlotPoint> points) {
  if (points.empty()) return kNan;
  return FiniteMean(points.last(std::max<size_t>(1, points.size() / 10)));
}

std::optional<LossComparison> CompareLoss(std::span<const PlotPoint> base,
                                          std::span<const PlotPoint> other) {
  const std::vector<PlotPoint> a = FinitePoints(base), b = FinitePoints(other);
  if (a.empty() || b.empty()) return std::nullopt;
  LossComparison comparison;
  comparison.common_tokens = std::min(a.back().x, b.back().x);
  const double start = 0.9 * comparison.common_tokens;
  std::vector<double> differences;
  for (const PlotPoint& point : b) {
    if (point.x < start || point.x > comparison.common_tokens || point.x < a.front().x) continue;
    differences.push_back(ValueAt(a, point.x) - point.y);
  }
  if (differences.empty()) return std::nullopt;
  std::tie(comparison.difference, comparison.standard_error) = MeanAndError(differences);
  comparison.share_of_tokens = ShareOfTokens(a, b);
  return comparison;
}

double Median(std::span<const v1::StepMetrics> metrics, double (v1::StepMetrics::*value)() const) {
  std::vector<double> values;
  for (const v1::StepMetrics& step : metrics) {
    if (std::isfinite((step.*value)())) values.push_back((step.*value)());
  }
  if (values.empty()) return kNan;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianSpeed(std::span<const v1::StepMetrics> metrics) {
  return Median(metrics, &v1::StepMetrics::tokens_per_second);
}

bool IsDense(const v1::RunSpec& spec) {
  const v1::RoutingConfig& routing = spec.model().routing();
  return routing.router() == v1::DENSE || routing.num_experts() <= 1;
}

std::vector<std::pair<size_t, size_t>> PairRuns(std::span<const ReportRun> runs) {
  const auto alike = [](const v1::RunSpec& a, const v1::RunSpec& b) {
    return a.dataset_dir() == b.dataset_dir() && a.seed() == b.seed() &&
           a.num_steps() == b.num_steps() &&
           a.batch().global_batch_size() == b.batch().global_batch_size() &&
           a.model().num_layers() == b.model().num_layers() &&
           a.model().d_model() == b.model().d_model();
  };
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t dense = 0; dense < runs.size(); ++dense) {
    for (size_t moe = 0; moe < runs.size(); ++moe) {
      if (IsDense(runs[dense].spec) && !IsDense(runs[moe].spec) &&
          alike(runs[dense].spec, runs[moe].spec)) {
        pairs.emplace_back(dense, moe);
      }
    }
  }
  return pairs;
}

}  // namespace braid
