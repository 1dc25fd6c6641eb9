#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "report/choice_map.h"
#include "report/layer_chart.h"
#include "report/report_sections.h"
#include "report/run_curves.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// Returns the share of the choices that name another layer.
double ShareOfOthers(const v1::LayerChoices& layer) {
  return layer.layer() < layer.shares_size() ? 1 - layer.shares(layer.layer()) : 0;
}

// Returns the shares of the newest measurement and their course; "" for a run without any.
std::string ChoicesOf(const ReportRun& run, const std::string& label) {
  const auto newest =
      std::find_if(run.metrics.rbegin(), run.metrics.rend(),
                   [](const v1::StepMetrics& step) { return !step.layer_choices().empty(); });
  if (newest == run.metrics.rend()) return "";
  std::vector<int> layers;
  for (const v1::LayerChoices& layer : newest->layer_choices()) layers.push_back(layer.layer());
  const auto points_of = [&](int i) {
    std::vector<PlotPoint> points;
    for (const v1::StepMetrics& step : run.metrics) {
      if (i >= step.layer_choices_size()) continue;
      points.push_back(
          {static_cast<double>(step.num_tokens()), ShareOfOthers(step.layer_choices(i))});
    }
    return ForPlot(points);
  };
  return absl::StrCat(
      "<div class=\"grid2\"><div>",
      RenderChoiceMap(absl::StrCat(label, ", step ", newest->step()),
                      "Layers chosen at the newest measurement", newest->layer_choices()),
      "</div><div>",
      RenderLayerChart({"Share of other layers", "", 1}, run.title, layers, points_of),
      "</div></div>\n");
}

}  // namespace

std::string MixingSection(std::span<const ReportRun> runs) {
  std::string maps;
  for (size_t i = 0; i < runs.size(); ++i) maps += ChoicesOf(runs[i], RunLabel(runs, i));
  return Section("Mixing of layers",
                 "Share of the choices of each mixing layer (rows) by chosen layer (columns), over "
                 "the positions of a batch that have a target, and the share of the choices of "
                 "another layer over training. A layer that chooses itself is used alone.",
                 maps.empty() ? "" : maps + RenderChoiceScale(), "mixing");
}

}  // namespace braid
