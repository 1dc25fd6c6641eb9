// Charts of values with their intervals: one group for each label, and in it one bar or dot for
// each series.
#ifndef BRAID_REPORT_INTERVAL_CHART_H_
#define BRAID_REPORT_INTERVAL_CHART_H_

#include <string>
#include <vector>

namespace braid {

struct IntervalChart {
  enum class Marks {
    // On a scale that starts at zero, each with its number.
    kBars,
    // On a scale that need not start at zero; readable with a dozen series.
    kDots,
  };
  struct Series {
    std::string name;
    int color = 0;
    std::vector<double> values;  // one per label; not drawn where missing or not finite
    // Ends of the intervals. No interval is drawn where either is missing or not finite.
    std::vector<double> lows = {};
    std::vector<double> highs = {};
    std::string css_class = {};
    bool hollow = false;  // dots only
    // Series with the same lane are drawn on top of one another. Default: the index of the series.
    int lane = -1;
    bool in_legend = true;
  };

  Marks marks = Marks::kDots;
  std::string description = {};
  std::string x_label = {};
  std::vector<std::string> labels = {};
  std::vector<Series> series = {};
  // Values to compare with, one per label, drawn as a tick across the group unless not finite.
  std::vector<double> references = {};
  std::string reference_name = {};
  int digits = 1;
  int width = 640;
};

// Returns the chart twice, for wide and for narrow pages, under one legend; "" without labels or
// values.
std::string RenderForBothWidths(IntervalChart chart);

}  // namespace braid

#endif  // BRAID_REPORT_INTERVAL_CHART_H_
