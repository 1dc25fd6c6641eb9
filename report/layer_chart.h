// A line chart of one value of each layer with experts over training.
#ifndef BRAID_REPORT_LAYER_CHART_H_
#define BRAID_REPORT_LAYER_CHART_H_

#include <functional>
#include <string>
#include <vector>

#include "report/plot_series.h"

namespace braid {

// A value between 0 and `high`; `unit` follows the name on the axis, as in " of 8" or ", nats".
struct LayerMeasure {
  std::string name, unit;
  double high;
};

// Returns the chart. `points_of(i)` returns the curve of layers[i], over tokens; more than eight
// curves would be hard to distinguish, so that at most eight layers are shown. `period` ends the
// description, as in "training".
std::string RenderLayerChart(const LayerMeasure& measure, const std::string& period,
                             const std::vector<int>& layers,
                             const std::function<std::vector<PlotPoint>(int i)>& points_of);

}  // namespace braid

#endif  // BRAID_REPORT_LAYER_CHART_H_
