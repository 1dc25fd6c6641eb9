// Charts of lines over a common x, most often tokens.
#ifndef BRAID_REPORT_LINE_CHART_H_
#define BRAID_REPORT_LINE_CHART_H_

#include <optional>
#include <string>
#include <vector>

#include "report/plot_series.h"

namespace braid {

// An event at an x, drawn as a dashed vertical line with a head.
struct PlotMark {
  double x = 0;
  std::string title;
  int color = 0;
  std::string css_class = {};
};

struct LineChart {
  std::string description;  // the alternative text, which screen readers read
  std::string x_label;      // with unit
  std::string y_label;
  std::vector<PlotSeries> series;
  // Digits of y values in tooltips.
  int digits = 3;
  // Values that the y range includes in any case.
  std::optional<double> y_min = {};
  std::optional<double> y_max = {};
  // The y range covers the points after this fraction of the x range; earlier points may be
  // clipped.
  double settling = 0;
  // In pixels at which text is 12 pixels high.
  int width = 640;
  int height = 300;
  std::vector<PlotMark> marks = {};
  // Also labels each line at its end.
  bool direct_labels = false;
  // Formats values from 1000 on as "27.1k" instead of with `digits`.
  bool counts = false;
};

// Returns the plot, with a legend if there is more than one series; "" if no point is finite. The
// values of all series at the pointer are shown by CSS alone, without a script.
std::string RenderLineChart(const LineChart& chart);

// Returns the chart twice, for wide and for narrow pages, under one legend.
std::string RenderForBothWidths(LineChart chart);

// Returns the plot without a legend.
std::string RenderLinePlot(const LineChart& chart);

}  // namespace braid

#endif  // BRAID_REPORT_LINE_CHART_H_
