// What the plots share: series of points, how runs and layers are told apart, legends.
//
// Eight colours that differ for readers with and without red-green blindness and stand out by at
// least 3:1 (WCAG 2.1, 1.4.11) on the page, light and dark; the next eight series repeat them with
// dashes, the eight after that with dots.
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
  // Index of the colour; from kNumColors on, colours repeat with dashed lines.
  int color = 0;
  std::vector<PlotPoint> points;  // x ascending
  // What the points are a smoothed form of; drawn faintly behind them.
  std::vector<PlotPoint> raw = {};
  // Put on all that is drawn for the series, such as "run-0".
  std::string css_class = {};
};

struct PlotRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  // A value that is not finite is left out.
  void Include(double value);
  bool empty() const { return low > high; }
};

// values[i]; NaN beyond the end.
double ValueOrNan(const std::vector<double>& values, size_t i);

// At most `count` of `total` places, evenly spaced, the first and the last among them.
std::vector<size_t> EvenlySpaced(size_t total, size_t count);

// "c3", "c3 dashed" or "c3 dotted", and `extra` behind it.
std::string ColorClass(int color, const std::string& extra = "");

// A small piece of line in a series' colour and dashes.
std::string RenderSwatch(int color);

// Names and colours of series, as a list of HTML; empty for fewer than two.
std::string RenderLegend(const std::vector<PlotSeries>& series);

// One of two drawings of the same thing: `wide` on pages of 640 pixels and more and on paper,
// else `narrow`, which has to be readable at 360 pixels.
std::string ForWidth(const std::string& wide, const std::string& narrow);

}  // namespace braid

#endif  // BRAID_REPORT_PLOT_SERIES_H_
