// Plots as inline SVG: pure functions from values to markup. Colours are CSS
// classes (c0 ... c7) that the page defines for light and dark; values show up on
// hover through <title>. Values that are not finite are left out.
#ifndef BRAID_TRAINER_REPORT_SVG_PLOT_H_
#define BRAID_TRAINER_REPORT_SVG_PLOT_H_

#include <optional>
#include <string>
#include <vector>

namespace braid {

inline constexpr int kNumColors = 8;

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotSeries {
  std::string name;
  // Index of the colour; from kNumColors on, colours repeat with dashed lines.
  int color = 0;
  std::vector<PlotPoint> points;  // x ascending
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
};
std::string RenderLineChart(const LineChart& chart);

// Horizontal bars: one group a label, one bar a series in each.
struct BarChart {
  std::string description;
  std::string x_label;
  std::vector<std::string> labels;
  struct Series {
    std::string name;
    int color = 0;
    std::vector<double> values;  // one a label
  };
  std::vector<Series> series;
  int digits = 1;
};
std::string RenderBarChart(const BarChart& chart);

// Cells [row][column], shaded from `low` (clear) to `high` (full).
struct HeatMap {
  std::string description;
  std::string column_label;
  std::vector<std::string> rows;
  int num_columns = 0;
  std::vector<std::vector<double>> values;
  double low = 0;
  double high = 1;
};
std::string RenderHeatMap(const HeatMap& map);

// Names and colours of series, as a list of HTML.
std::string RenderLegend(const std::vector<PlotSeries>& series);

// A small square in a series' colour.
std::string RenderSwatch(int color);

// At most `count` + 1 round numbers (1, 2, 2.5 or 5 times a power of ten) that
// cover the range from the inside.
std::vector<double> RoundTicks(double low, double high, int count);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_SVG_PLOT_H_
