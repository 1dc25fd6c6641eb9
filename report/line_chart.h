// Lines over a common x, most often tokens.
#ifndef BRAID_REPORT_LINE_CHART_H_
#define BRAID_REPORT_LINE_CHART_H_

#include <optional>
#include <string>
#include <vector>

#include "report/plot_series.h"

namespace braid {

// Something that happened at an x: a dashed vertical line with a head.
struct PlotMark {
  double x = 0;
  std::string title;
  int color = 0;
  std::string css_class = {};
};

struct LineChart {
  std::string description;  // read aloud, and the alternative text
  std::string x_label;      // with unit
  std::string y_label;
  std::vector<PlotSeries> series;
  // Digits of y values on hover.
  int digits = 3;
  // Ranges that are shown at least.
  std::optional<double> y_min = {};
  std::optional<double> y_max = {};
  // The y range is that of the points after this share of the x range; earlier ones may
  // be cut off.
  double settling = 0;
  // Text is 12 high.
  int width = 640;
  int height = 300;
  std::vector<PlotMark> marks = {};
  // Names each line at its end, besides the legend.
  bool direct_labels = false;
  // Values from 1000 on as "27.1k", in place of `digits`.
  bool counts = false;
};

// With a legend when there is more than one series. Empty when no point is finite. The page needs
// no script: where the pointer or a finger rests, CSS shows the values of all series at that x.
std::string RenderLineChart(const LineChart& chart);

// The chart twice, for wide and for narrow pages, under one legend.
std::string RenderForBothWidths(LineChart chart);

// The plot alone.
std::string RenderLinePlot(const LineChart& chart);

}  // namespace braid

#endif  // BRAID_REPORT_LINE_CHART_H_
