// Dots with whiskers on a scale that need not start at zero: one group a label, one lane a series.
// Unlike bars it stays readable with a dozen series.
#ifndef BRAID_REPORT_DOT_CHART_H_
#define BRAID_REPORT_DOT_CHART_H_

#include <string>
#include <vector>

namespace braid {

struct DotChart {
  std::string description;
  std::string x_label;
  std::vector<std::string> labels;
  struct Series {
    std::string name;
    int color = 0;
    bool hollow = false;
    std::vector<double> values;  // one a label
    // Ends of the whiskers; none where they are missing or not finite.
    std::vector<double> lows = {};
    std::vector<double> highs = {};
    std::string css_class = {};
    // Series of one lane are drawn on top of one another. Default: a lane of its own.
    int lane = -1;
    // Whether the legend names it.
    bool in_legend = true;
  };
  std::vector<Series> series;
  // A value to compare with, one a label: a tick across the group. None where not finite.
  std::vector<double> references = {};
  std::string reference_name = {};
  int digits = 1;
  int width = 640;
};
std::string RenderDotChart(const DotChart& chart);

// The chart twice, for wide and for narrow pages, under one legend.
std::string RenderForBothWidths(DotChart chart);

}  // namespace braid

#endif  // BRAID_REPORT_DOT_CHART_H_
