// Series of points, and the colors and legends that distinguish them, for all plots.
//
// There are eight colors that readers with and without red-green blindness can distinguish, with a
// contrast of at least 3:1 (WCAG 2.1, 1.4.11) on the light and the dark page. The next eight series
// repeat them with dashes, the eight after that with dots.
#ifndef BRAID_REPORT_PLOT_SERIES_H_
#define BRAID_REPORT_PLOT_SERIES_H_

#include <limits>
#include <string>
#include <vector>

namespace braid {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline constexpr int kNumColors = 8;

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotSeries {
  std::string name;
  // Index of the color; from kNumColors on, colors repeat with dashed lines.
  int color = 0;
  std::vector<PlotPoint> points;  // x ascending
  // The points before smoothing, drawn faintly in the background.
  std::vector<PlotPoint> raw = {};
  // Class of all elements of the series, such as "run-0".
  std::string css_class = {};
};

struct PlotRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  // Extends the range to `value`, unless it is not finite.
  void Include(double value);
  bool empty() const { return low > high; }
};

// Returns values[i], or NaN beyond the end.
double ValueOrNan(const std::vector<double>& values, size_t i);

// Returns at most `count` evenly spaced indices below `total`, including the first and the last.
std::vector<size_t> EvenlySpaced(size_t total, size_t count);

// Returns "c3", "c3 dashed" or "c3 dotted", followed by `extra`.
std::string ColorClass(int color, const std::string& extra = "");

// Returns a short line in the color and dashes of a series.
std::string RenderSwatch(int color);

// Returns the names and colors of series as an HTML list; "" for fewer than two.
std::string RenderLegend(const std::vector<PlotSeries>& series);

// Returns both drawings of a chart, of which the page shows one: `wide` at 640 pixels and more and
// on paper, otherwise `narrow`, which must be readable at 360 pixels.
std::string ForWidth(const std::string& wide, const std::string& narrow);

}  // namespace braid

#endif  // BRAID_REPORT_PLOT_SERIES_H_
