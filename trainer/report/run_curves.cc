#include "trainer/report/run_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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
