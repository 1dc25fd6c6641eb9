#include "report/line_readout.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"

namespace braid {
namespace {

// Width of strips on plots that are wider and narrower than kSmallSpan.
constexpr double kStripWidth = 11, kSmallStripWidth = 18, kSmallSpan = 400;
constexpr double kRowHeight = 14;
// More rows would not fit into a plot.
constexpr size_t kMaxRows = 13;
constexpr double kNameLength = 26, kSmallNameLength = 16;
// Distance between a box and the edge of the drawing.
constexpr double kEdge = 2;

struct Reading {
  const PlotSeries* series;
  PlotPoint point;
};

// Returns the finite point that is nearest to `at` and at most `reach` away.
std::optional<PlotPoint> NearestPoint(const PlotSeries& series, double at, double reach) {
  const auto after =
      std::lower_bound(series.points.begin(), series.points.end(), at,
                       [](const PlotPoint& point, double value) { return point.x < value; });
  std::optional<PlotPoint> nearest;
  const auto consider = [&](const PlotPoint& point) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) return;
    const double distance = std::abs(point.x - at);
    if (distance > reach || (nearest && distance >= std::abs(nearest->x - at))) return;
    nearest = point;
  };
  if (after != series.points.end()) consider(*after);
  if (after != series.points.begin()) consider(*std::prev(after));
  return nearest;
}

std::vector<Reading> ReadingsAt(const LineChart& chart, double at, double reach) {
  std::vector<Reading> readings;
  for (const PlotSeries& series : chart.series) {
    if (const auto point = NearestPoint(series, at, reach)) readings.push_back({&series, *point});
  }
  return readings;
}

std::string ValueText(const LineChart& chart, double value) {
  return chart.counts ? FormatCount(value) : FormatFixed(value, chart.digits);
}

// Returns a box with one row per reading next to the line at `at`.
std::string BoxOf(const LineChart& chart, const std::vector<Reading>& readings, double at,
                  const PlotScale& x, const PlotScale& y) {
  std::vector<std::string> rows = {
      absl::StrCat(FormatCount(readings.front().point.x), " ", chart.x_label)};
  const double length = x.pixel_high - x.pixel_low > kSmallSpan ? kNameLength : kSmallNameLength;
  for (size_t i = 0; i < std::min(readings.size(), kMaxRows); ++i) {
    rows.push_back(absl::StrCat(Shorten(readings[i].series->name, length), " ",
                                ValueText(chart, readings[i].point.y)));
  }
  double width = 0;
  for (const std::string& row : rows) width = std::max(width, TextWidth(row, 11));
  width += 26;
  const bool left = at > (x.pixel_low + x.pixel_high) / 2;
  const double box =
      std::max(kEdge, std::min(left ? at - 10 - width : at + 10, chart.width - kEdge - width));
  const double top = y.pixel_high + 2;
  // All rows share one text element, since a page has thousands of boxes.
  std::string swatches, text;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double line = top + kRowHeight * static_cast<double>(i + 1);
    if (i > 0) {
      absl::StrAppend(&swatches, "<path class=\"line ",
                      ColorClass(readings[i - 1].series->color, readings[i - 1].series->css_class),
                      "\" d=\"M", Pixel(box + 5), " ", Pixel(line - 4), "h12\"/>");
    }
    absl::StrAppend(&text, "<tspan class=\"", i > 0 ? readings[i - 1].series->css_class : "",
                    "\" x=\"", Pixel(box + (i > 0 ? 21 : 6)), "\" y=\"", Pixel(line), "\">",
                    EscapeHtml(rows[i]), "</tspan>");
  }
  return absl::StrCat("<rect class=\"box\" x=\"", Pixel(box), "\" y=\"", Pixel(top), "\" width=\"",
                      Pixel(width), "\" height=\"",
                      Pixel(kRowHeight * static_cast<double>(rows.size()) + 8), "\"/>", swatches,
                      "<text>", text, "</text>");
}

std::string DotsOf(const std::vector<Reading>& readings, const PlotScale& x, const PlotScale& y) {
  std::string out;
  for (const Reading& reading : readings) {
    if (reading.point.y < y.low || reading.point.y > y.high) continue;
    absl::StrAppend(&out, "<circle class=\"",
                    ColorClass(reading.series->color, reading.series->css_class), "\" cx=\"",
                    Pixel(x(reading.point.x)), "\" cy=\"", Pixel(y(reading.point.y)),
                    "\" r=\"3\"/>");
  }
  return out;
}

}  // namespace

std::string RenderReadout(const LineChart& chart, const PlotScale& x, const PlotScale& y) {
  const double span = x.pixel_high - x.pixel_low;
  const int count =
      std::max(1, static_cast<int>(span / (span > kSmallSpan ? kStripWidth : kSmallStripWidth)));
  const double strip = span / count;
  std::string out = "<g class=\"readout\">\n";
  for (int i = 0; i < count; ++i) {
    const double at = x.pixel_low + strip * (i + 0.5);
    const double value = x.low + (x.high - x.low) * (i + 0.5) / count;
    const auto readings = ReadingsAt(chart, value, (x.high - x.low) / count);
    if (readings.empty()) continue;
    absl::StrAppend(&out, "<g class=\"read\">",
                    SvgRectangle(at - strip / 2, y.pixel_high, strip, y.pixel_low - y.pixel_high,
                                 "class=\"strip\"", ""),
                    "<g class=\"tip\">", SvgLine(at, y.pixel_high, at, y.pixel_low, "rule"),
                    DotsOf(readings, x, y), BoxOf(chart, readings, at, x, y), "</g></g>\n");
  }
  return out + "</g>\n";
}

}  // namespace braid
