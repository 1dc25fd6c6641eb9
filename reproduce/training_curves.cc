#include "reproduce/training_curves.h"

#include <functional>
#include <map>

#include "report/run_curves.h"
#include "reproduce/arm_statistics.h"

namespace braid {
namespace {

using Curve = std::vector<PlotPoint>;
// The runs with one seed.
using SeedRuns = std::vector<const ArmResult*>;

// Returns the mean over the seeds that have all `arms`; empty if there are none.
Curve MeanOverSeeds(const Evidence& evidence, const std::vector<SignedArm>& arms,
                    const std::function<Curve(const SeedRuns&)>& curve_of) {
  const auto runs = PairedRuns(evidence, arms);
  if (!runs.ok()) return {};
  std::vector<Curve> curves;
  for (const SeedRuns& of_seed : *runs) curves.push_back(curve_of(of_seed));
  return MeanCurve(curves);
}

ClaimSeries SeriesOf(const std::string& name, std::span<const PlotPoint> points,
                     const SeriesFigure& figure) {
  ClaimSeries series{.name = name, .figure = figure};
  for (const PlotPoint& point : points) {
    series.x.push_back(point.x);
    series.values.push_back(point.y);
  }
  return series;
}

// ForPlot requires at least one point.
Curve Smoothed(const Curve& curve) {
  return curve.empty() ? curve : Thin(ForPlot(curve), kCurvePoints);
}

Curve UtilizationOf(const ArmResult& result) {
  Curve curve;
  for (const v1::StepMetrics& step : result.metrics) {
    if (step.routing().empty()) continue;
    curve.push_back(
        {static_cast<double>(step.num_tokens()), ActiveShareOf(step, result.num_experts)});
  }
  return curve;
}

Curve TenthsOf(const ArmResult& baseline, const ArmResult& model) {
  Curve curve;
  for (const double gain : GainByTenths(baseline.metrics, model.metrics)) {
    curve.push_back({10.0 * static_cast<double>(curve.size()) + 5, gain});
  }
  return curve;
}

// Returns the loss of each validation in the mean over domains, by percent of the run.
std::map<double, double> ValidationsOf(const ArmResult& result) {
  std::map<double, double> losses;
  for (const v1::StepMetrics& step : result.metrics) {
    if (step.validation().domains().empty()) continue;
    double sum = 0;
    for (const v1::ValidationDomain& domain : step.validation().domains()) {
      sum += domain.loss_after_first_segment();
    }
    const auto last_step = static_cast<double>(result.metrics.back().step());
    losses[100.0 * static_cast<double>(step.step()) / last_step] =
        sum / step.validation().domains_size();
  }
  return losses;
}

}  // namespace

std::vector<PlotPoint> MeanCurve(std::span<const std::vector<PlotPoint>> curves) {
  std::map<double, std::vector<double>> values;
  for (const Curve& curve : curves) {
    for (const PlotPoint& point : curve) values[point.x].push_back(point.y);
  }
  Curve mean;
  for (const auto& [x, ys] : values) {
    if (ys.size() < curves.size()) continue;
    double sum = 0;
    for (const double y : ys) sum += y;
    mean.push_back({x, sum / static_cast<double>(ys.size())});
  }
  return mean;
}

ClaimSeries LossCurveOf(const Evidence& evidence, const std::string& arm,
                        const SeriesFigure& figure, v1::OrderMode order) {
  const Curve mean = MeanOverSeeds(evidence, {{1, arm, order}}, [](const SeedRuns& runs) {
    return LossCurve(runs[0]->metrics);
  });
  return SeriesOf(arm, Smoothed(mean), figure);
}

ClaimSeries GainCurveOf(const Evidence& evidence, const std::string& baseline,
                        const std::string& arm, const SeriesFigure& figure) {
  const Curve mean = MeanOverSeeds(evidence, {{1, baseline}, {-1, arm}}, [](const SeedRuns& runs) {
    return LossDifference(runs[0]->metrics, runs[1]->metrics);
  });
  return SeriesOf(arm, Smoothed(mean), figure);
}

ClaimSeries UtilizationCurveOf(const Evidence& evidence, const std::string& arm,
                               const SeriesFigure& figure) {
  const Curve mean = MeanOverSeeds(evidence, {{1, arm}},
                                   [](const SeedRuns& runs) { return UtilizationOf(*runs[0]); });
  return SeriesOf(arm, Thin(mean, kCurvePoints), figure);
}

ClaimSeries GainByTenthsOf(const Evidence& evidence, const std::string& baseline,
                           const std::string& arm, v1::OrderMode order, const std::string& name,
                           const SeriesFigure& figure) {
  const Curve mean =
      MeanOverSeeds(evidence, {{1, baseline, order}, {-1, arm, order}},
                    [](const SeedRuns& runs) { return TenthsOf(*runs[0], *runs[1]); });
  return SeriesOf(name, mean, figure);
}

ClaimSeries ValidationGainOf(const Evidence& evidence, const SignedArm& baseline,
                             const SignedArm& arm, const std::string& name,
                             const SeriesFigure& figure) {
  const Curve mean = MeanOverSeeds(evidence, {baseline, arm}, [](const SeedRuns& runs) {
    const std::map<double, double> losses = ValidationsOf(*runs[1]);
    Curve curve;
    for (const auto& [percent, loss] : ValidationsOf(*runs[0])) {
      const auto paired = losses.find(percent);
      if (paired != losses.end()) curve.push_back({percent, loss - paired->second});
    }
    return curve;
  });
  return SeriesOf(name, mean, figure);
}

}  // namespace braid
