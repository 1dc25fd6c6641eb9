// Horizontal bars from zero: one group a label, one bar a series in each.
#ifndef BRAID_REPORT_BAR_CHART_H_
#define BRAID_REPORT_BAR_CHART_H_

#include <string>
#include <vector>

namespace braid {

struct BarChart {
  std::string description;
  std::string x_label;
  std::vector<std::string> labels;
  struct Series {
    std::string name;
    int color = 0;
    std::vector<double> values;  // one a label
    // Ends of the whiskers; none where they are missing or not finite.
    std::vector<double> lows = {};
    std::vector<double> highs = {};
    std::string css_class = {};
  };
  std::vector<Series> series;
  int digits = 1;
  int width = 640;
};
std::string RenderBarChart(const BarChart& chart);

// The chart twice, for wide and for narrow pages, under one legend.
std::string RenderForBothWidths(BarChart chart);

}  // namespace braid

#endif  // BRAID_REPORT_BAR_CHART_H_
