#include "report/layer_chart.h"

#include "absl/strings/str_cat.h"
#include "report/line_chart.h"

namespace braid {
namespace {

constexpr size_t kShownCurves = 8;

}  // namespace

std::string RenderLayerChart(const LayerMeasure& measure, const std::string& period,
                             const std::vector<int>& layers,
                             const std::function<std::vector<PlotPoint>(int i)>& points_of) {
  LineChart chart{.description = absl::StrCat(measure.name, " of each layer during ", period),
                  .x_label = "tokens",
                  .y_label = absl::StrCat(measure.name, measure.unit),
                  .series = {},
                  .digits = 2,
                  .y_min = 0,
                  .y_max = measure.high,
                  .width = 420,
                  .height = 230};
  for (const size_t i : EvenlySpaced(layers.size(), kShownCurves)) {
    chart.series.push_back({absl::StrCat("layer ", layers[i]),
                            static_cast<int>(chart.series.size()), points_of(static_cast<int>(i))});
  }
  return RenderLineChart(chart);
}

}  // namespace braid
