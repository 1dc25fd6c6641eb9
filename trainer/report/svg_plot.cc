#include "trainer/report/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "trainer/report/html_text.h"
#include "trainer/report/svg_frame.h"

namespace braid {
namespace {

constexpr double kWidth = 640;
constexpr double kLeft = 56, kRight = 14, kTop = 26, kBottom = 44;
// Points of a series that answer to hovering.
constexpr size_t kHoverPoints = 60;
constexpr double kBarHeight = 11;
constexpr double kCellHeight = 22;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

bool IsFinite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

bool IsShown(const PlotPoint& point, const PlotScale& y) {
  return IsFinite(point) && point.y >= y.low && point.y <= y.high;
}

std::string ColorClass(int color) {
  return absl::StrCat("c", color % kNumColors, color >= kNumColors ? " dashed" : "");
}

// One path, broken where a value is not finite or out of range.
std::string PathOf(const PlotSeries& series, const PlotScale& x, const PlotScale& y) {
  std::string path;
  bool drawing = false;
  for (const PlotPoint& point : series.points) {
    const bool shown = IsShown(point, y);
    if (shown) {
      absl::StrAppend(&path, drawing ? "L" : "M", Pixel(x(point.x)), " ", Pixel(y(point.y)));
    }
    drawing = shown;
  }
  return absl::StrCat("<path class=\"line ", ColorClass(series.color), "\" d=\"", path, "\"/>\n");
}

std::string HoverOf(const PlotSeries& series, const PlotScale& x, const PlotScale& y, int digits) {
  const size_t stride = std::max<size_t>(1, series.points.size() / kHoverPoints);
  std::string out;
  for (size_t i = 0; i < series.points.size(); i += stride) {
    const PlotPoint& point = series.points[i];
    if (!IsShown(point, y)) continue;
    absl::StrAppend(&out, "<circle class=\"hover\" cx=\"", Pixel(x(point.x)), "\" cy=\"",
                    Pixel(y(point.y)), "\" r=\"7\"><title>", EscapeHtml(series.name), "\n",
                    FormatCount(point.x), ": ", FormatFixed(point.y, digits),
                    "</title></circle>\n");
  }
  return out;
}

Range XRange(const LineChart& chart) {
  Range range;
  for (const PlotSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (IsFinite(point)) range.Include(point.x);
    }
  }
  if (!range.empty()) range.Include(0);
  return range;
}

// Of the points from `start` on; of all when there are none.
Range YRange(const LineChart& chart, double start) {
  Range late, all;
  for (const PlotSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (!IsFinite(point)) continue;
      all.Include(point.y);
      if (point.x >= start) late.Include(point.y);
    }
  }
  return late.empty() ? all : late;
}

double LabelWidth(const std::vector<std::string>& labels) {
  size_t longest = 0;
  for (const std::string& label : labels) longest = std::max(longest, label.size());
  return 14 + 8.0 * static_cast<double>(std::min<size_t>(longest, 20));
}

double ValueOf(const std::vector<double>& values, size_t i) {
  return i < values.size() ? values[i] : std::numeric_limits<double>::quiet_NaN();
}

std::string Rectangle(double x, double y, double width, double height,
                      const std::string& attributes, const std::string& title) {
  return absl::StrCat("<rect x=\"", Pixel(x), "\" y=\"", Pixel(y), "\" width=\"", Pixel(width),
                      "\" height=\"", Pixel(height), "\" ", attributes, "><title>",
                      EscapeHtml(title), "</title></rect>");
}

std::string Bar(const BarChart& chart, const BarChart::Series& series, size_t label,
                const PlotScale& x, double y) {
  const double value = ValueOf(series.values, label);
  if (!std::isfinite(value)) return "";
  const std::string text = FormatFixed(value, chart.digits);
  return absl::StrCat(
      Rectangle(x.pixel_low, y, std::max(1.0, x(value) - x.pixel_low), kBarHeight - 1,
                absl::StrCat("class=\"bar ", ColorClass(series.color), "\""),
                absl::StrCat(chart.labels[label], ", ", series.name, ": ", text)),
      SvgText(x(value) + 4, y + kBarHeight - 2, "start", text, "small"), "\n");
}

std::string Cell(const HeatMap& map, size_t row, int column, double x, double y, double width) {
  const double value = ValueOf(map.values[row], column);
  if (!std::isfinite(value)) return "";
  const double share = std::clamp((value - map.low) / (map.high - map.low), 0.0, 1.0);
  std::string out =
      Rectangle(x, y, width - 1, kCellHeight - 1,
                absl::StrCat("class=\"heat\" fill-opacity=\"", FormatFixed(share, 3), "\""),
                absl::StrCat(map.rows[row], ", expert ", column, ": ", FormatFixed(value, 3)));
  if (width >= 30) {
    absl::StrAppend(&out, SvgText(x + width / 2 - 0.5, y + 15, "middle", FormatFixed(value, 2),
                                  share > 0.55 ? "cell strong" : "cell"));
  }
  return out;
}

}  // namespace

std::vector<double> RoundTicks(double low, double high, int count) {
  const double raw = (high - low) / count;
  if (!(raw > 0) || !std::isfinite(raw)) return {low};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= raw * (1 - 1e-9)) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + 1e-9 * step; ++k) {
    ticks.push_back(k * step + 0.0);  // + 0.0: no negative zero
  }
  return ticks;
}

std::string RenderSwatch(int color) {
  return absl::StrCat("<span class=\"swatch ", ColorClass(color), "\"></span>");
}

std::string RenderLegend(const std::vector<PlotSeries>& series) {
  if (series.size() < 2) return "";
  std::string out = "<p class=\"legend\">";
  for (const PlotSeries& one : series) {
    absl::StrAppend(&out, "<span>", RenderSwatch(one.color), EscapeHtml(one.name), "</span> ");
  }
  return out + "</p>\n";
}

std::string RenderLineChart(const LineChart& chart) {
  const Range xs = XRange(chart);
  if (xs.empty()) return "";
  Range ys = YRange(chart, xs.high * chart.settling);
  if (chart.y_min) ys.Include(*chart.y_min);
  if (chart.y_max) ys.Include(*chart.y_max);
  const double bottom = chart.height - kBottom;
  const double right = chart.width - kRight;
  const PlotScale x = ScaleOf(xs.low, xs.high, kLeft, right);
  const double margin = 0.03 * (ys.high - ys.low);
  const PlotScale y = ScaleOf(ys.low - margin, ys.high + margin, bottom, kTop);
  std::string content =
      XAxis(x, kTop, bottom, chart.x_label) + YAxis(y, kLeft, right, chart.y_label);
  for (const PlotSeries& series : chart.series) content += PathOf(series, x, y);
  for (const PlotSeries& series : chart.series) content += HoverOf(series, x, y, chart.digits);
  return RenderLegend(chart.series) +
         SvgElement(chart.width, chart.height, chart.description, content);
}

std::string RenderBarChart(const BarChart& chart) {
  Range range;
  range.Include(0);
  for (const BarChart::Series& series : chart.series) {
    for (const double value : series.values) {
      if (std::isfinite(value)) range.Include(value);
    }
  }
  if (chart.labels.empty() || range.high <= 0) return "";
  const double left = LabelWidth(chart.labels);
  const double group = kBarHeight * static_cast<double>(chart.series.size()) + 10;
  const double bottom = 8 + group * static_cast<double>(chart.labels.size());
  // Room for the number behind the longest bar.
  const PlotScale x = ScaleOf(0, range.high, left, kWidth - 50);
  std::string content = XAxis(x, 4, bottom, chart.x_label);
  std::vector<PlotSeries> legend;
  for (const BarChart::Series& series : chart.series) {
    legend.push_back({series.name, series.color, {}});
  }
  for (size_t label = 0; label < chart.labels.size(); ++label) {
    const double top = 8 + group * static_cast<double>(label);
    absl::StrAppend(&content, SvgText(left - 8, top + (group - 10) / 2 + 4, "end",
                                      Shorten(chart.labels[label], 20)));
    for (size_t i = 0; i < chart.series.size(); ++i) {
      content += Bar(chart, chart.series[i], label, x, top + kBarHeight * static_cast<double>(i));
    }
  }
  return RenderLegend(legend) + SvgElement(kWidth, bottom + kBottom, chart.description, content);
}

std::string RenderHeatMap(const HeatMap& map) {
  if (map.rows.empty() || map.num_columns <= 0) return "";
  const double left = LabelWidth(map.rows);
  const double width = std::min(48.0, (kWidth / 1.5 - left - 4) / map.num_columns);
  const double bottom = 4 + kCellHeight * static_cast<double>(map.rows.size());
  // Every column has a number as long as there is room for it.
  const int stride = std::max(1, static_cast<int>(std::ceil(18 / width)));
  std::string content;
  for (size_t row = 0; row < map.rows.size(); ++row) {
    const double y = 4 + kCellHeight * static_cast<double>(row);
    absl::StrAppend(&content, SvgText(left - 8, y + 15, "end", Shorten(map.rows[row], 20)));
    for (int column = 0; column < map.num_columns; ++column) {
      content += Cell(map, row, column, left + width * column, y, width);
    }
    content += "\n";
  }
  for (int column = 0; column < map.num_columns; column += stride) {
    absl::StrAppend(&content, SvgText(left + width * (column + 0.5), bottom + 14, "middle",
                                      absl::StrCat(column), "small"));
  }
  absl::StrAppend(&content, SvgText(left + width * map.num_columns / 2, bottom + 30, "middle",
                                    map.column_label));
  return SvgElement(left + width * map.num_columns + 4, bottom + 36, map.description, content);
}

}  // namespace braid
