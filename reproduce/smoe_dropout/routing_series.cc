#include "reproduce/smoe_dropout/routing_series.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "absl/strings/str_cat.h"
#include "report/run_curves.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

using SmoeCurve = std::vector<PlotPoint>;
using RunsOfArm = std::vector<const ArmResult*>;

RunsOfArm RunsOf(const Evidence& evidence, const std::string& arm) {
  RunsOfArm runs;
  for (const ArmResult& result : evidence.results) {
    if (result.arm == arm && result.order == v1::RANDOM) runs.push_back(&result);
  }
  return runs;
}

// Averages the curves of all runs at the x that all have.
ClaimSeries MeanSeries(const RunsOfArm& runs, const std::string& name, const SeriesFigure& figure,
                       const std::function<SmoeCurve(const ArmResult&)>& curve_of) {
  std::vector<SmoeCurve> curves;
  for (const ArmResult* run : runs) curves.push_back(curve_of(*run));
  ClaimSeries series{.name = name, .figure = figure};
  for (const PlotPoint& point : Thin(MeanCurve(curves), kCurvePoints)) {
    series.x.push_back(point.x);
    series.values.push_back(point.y);
  }
  return series;
}

SmoeCurve LossesOf(const ArmResult& run, int32_t first_positions) {
  std::map<int32_t, double> losses;  // by experts per token
  for (const HeldoutScore& score : run.heldout) {
    if (score.first_positions != first_positions || score.active_experts == 0) continue;
    if (const double loss = MeanLoss(score); !std::isnan(loss)) losses[score.active_experts] = loss;
  }
  SmoeCurve curve;
  for (const auto& [active, loss] : losses) curve.push_back({static_cast<double>(active), loss});
  return curve;
}

SmoeCurve MeanOverLayers(const ArmResult& run, const std::function<LayerNumber>& number) {
  SmoeCurve curve;
  for (const v1::StepMetrics& step : run.metrics) {
    if (step.routing().empty()) continue;
    double sum = 0;
    for (const v1::LayerRouting& layer : step.routing()) sum += number(layer);
    curve.push_back({static_cast<double>(step.num_tokens()), sum / step.routing_size()});
  }
  return curve;
}

// The sum of a number of one layer over measurements, and their count.
struct LateSum {
  double sum = 0;
  int64_t count = 0;
};

// Returns the means by layer.
std::map<int32_t, double> LateMeans(const RunsOfArm& runs,
                                    const std::function<LayerNumber>& number) {
  std::map<int32_t, LateSum> sums;
  for (const ArmResult* run : runs) {
    for (const v1::StepMetrics& step : run->metrics) {
      if (!InLastTenth(step.step(), run->metrics.back().step())) continue;
      for (const v1::LayerRouting& layer : step.routing()) {
        sums[layer.layer()].sum += number(layer);
        ++sums[layer.layer()].count;
      }
    }
  }
  std::map<int32_t, double> means;
  for (const auto& [layer, late] : sums) means[layer] = late.sum / static_cast<double>(late.count);
  return means;
}

// Returns the number of experts whose loads are measured.
int NumLoads(const RunsOfArm& runs) {
  int count = 0;
  for (const ArmResult* run : runs) {
    for (const v1::StepMetrics& step : run->metrics) {
      for (const v1::LayerRouting& layer : step.routing()) {
        count = std::max(count, layer.load_size());
      }
    }
  }
  return count;
}

}  // namespace

ClaimSeries LossByExperts(const Evidence& evidence, const std::string& arm, int32_t first_positions,
                          const SeriesFigure& figure) {
  return MeanSeries(RunsOf(evidence, arm), arm, figure,
                    [&](const ArmResult& run) { return LossesOf(run, first_positions); });
}

ClaimSeries LayerCurveOf(const Evidence& evidence, const std::string& arm,
                         const SeriesFigure& figure, const std::function<LayerNumber>& number) {
  return MeanSeries(RunsOf(evidence, arm), arm, figure,
                    [&](const ArmResult& run) { return MeanOverLayers(run, number); });
}

ClaimSeries LateLayersOf(const Evidence& evidence, const std::string& arm,
                         const SeriesFigure& figure, const std::function<LayerNumber>& number) {
  ClaimSeries series{.name = arm, .figure = figure};
  for (const auto& [layer, mean] : LateMeans(RunsOf(evidence, arm), number)) {
    series.labels.push_back(absl::StrCat("layer ", layer));
    series.values.push_back(mean);
  }
  return series;
}

std::vector<ClaimSeries> LoadRowsOf(const Evidence& evidence, const std::string& arm,
                                    const SeriesFigure& figure) {
  const RunsOfArm runs = RunsOf(evidence, arm);
  std::map<int32_t, ClaimSeries> rows;
  for (int expert = 0; expert < NumLoads(runs); ++expert) {
    const auto load = [expert](const v1::LayerRouting& layer) {
      return expert < layer.load_size() ? layer.load(expert) : 0;
    };
    for (const auto& [layer, mean] : LateMeans(runs, load)) {
      ClaimSeries& row = rows[layer];
      row.labels.push_back(absl::StrCat(expert));
      row.values.push_back(mean);
    }
  }
  std::vector<ClaimSeries> all;
  for (auto& [layer, row] : rows) {
    row.name = absl::StrCat("layer ", layer);
    row.figure = figure;
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace braid
