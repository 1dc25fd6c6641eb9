#include "report/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kBarChartBarHeight = 11;
constexpr double kBarChartBottom = 44;
constexpr int kBarChartNarrowWidth = 370;

// The whisker, and where it ends on the right; `end` without one.
std::string Whisker(const BarChart::Series& series, size_t label, const PlotScale& x, double middle,
                    double* end) {
  const double low = ValueOrNan(series.lows, label), high = ValueOrNan(series.highs, label);
  if (!std::isfinite(low) || !std::isfinite(high)) return "";
  *end = std::max(*end, x(high));
  return absl::StrCat("<path class=\"whisker ", series.css_class, "\" d=\"M", Pixel(x(low)), " ",
                      Pixel(middle), "H", Pixel(x(high)), "M", Pixel(x(low)), " ",
                      Pixel(middle - 2.5), "v5M", Pixel(x(high)), " ", Pixel(middle - 2.5),
                      "v5\"/>");
}

std::string TitleOf(const BarChart& chart, const BarChart::Series& series, size_t label) {
  std::string title = absl::StrCat(chart.labels[label], ", ", series.name, ": ",
                                   FormatFixed(series.values[label], chart.digits));
  const double low = ValueOrNan(series.lows, label), high = ValueOrNan(series.highs, label);
  if (std::isfinite(low) && std::isfinite(high)) {
    absl::StrAppend(&title, " (", FormatFixed(low, chart.digits), " to ",
                    FormatFixed(high, chart.digits), ")");
  }
  return title;
}

std::string Bar(const BarChart& chart, const BarChart::Series& series, size_t label,
                const PlotScale& x, double y) {
  const double value = ValueOrNan(series.values, label);
  if (!std::isfinite(value)) return "";
  double end = x(value);
  const std::string whisker = Whisker(series, label, x, y + (kBarChartBarHeight - 1) / 2, &end);
  return absl::StrCat(
      SvgRectangle(x.pixel_low, y, std::max(1.0, x(value) - x.pixel_low), kBarChartBarHeight - 1,
                   absl::StrCat("class=\"bar ", ColorClass(series.color, series.css_class), "\""),
                   TitleOf(chart, series, label)),
      whisker,
      SvgText(end + 4, y + kBarChartBarHeight - 2, "start", FormatFixed(value, chart.digits),
              series.css_class.empty() ? "small" : "small " + series.css_class),
      "\n");
}

PlotRange RangeOf(const BarChart& chart) {
  PlotRange range;
  range.Include(0);
  for (const BarChart::Series& series : chart.series) {
    for (const double value : series.values) range.Include(value);
    for (const double value : series.highs) range.Include(value);
  }
  return range;
}

std::string Legend(const BarChart& chart) {
  std::vector<PlotSeries> legend;
  for (const BarChart::Series& series : chart.series) {
    legend.push_back({series.name, series.color, {}, {}, series.css_class});
  }
  return RenderLegend(legend);
}

std::string Plot(const BarChart& chart) {
  const PlotRange range = RangeOf(chart);
  if (chart.labels.empty() || range.high <= 0) return "";
  const double left = LabelWidth(chart.labels);
  const double group = kBarChartBarHeight * static_cast<double>(chart.series.size()) + 10;
  const double bottom = 8 + group * static_cast<double>(chart.labels.size());
  // Room for the number behind the longest bar.
  const PlotScale x = ScaleOf(0, range.high, left, chart.width - 50);
  std::string content = XAxis(x, 4, bottom, chart.x_label);
  for (size_t label = 0; label < chart.labels.size(); ++label) {
    const double top = 8 + group * static_cast<double>(label);
    absl::StrAppend(&content, SvgText(left - 8, top + (group - 10) / 2 + 4, "end",
                                      Shorten(chart.labels[label], 20)));
    for (size_t i = 0; i < chart.series.size(); ++i) {
      content +=
          Bar(chart, chart.series[i], label, x, top + kBarChartBarHeight * static_cast<double>(i));
    }
  }
  return SvgElement(chart.width, bottom + kBarChartBottom, chart.description, content);
}

}  // namespace

std::string RenderBarChart(const BarChart& chart) {
  const std::string plot = Plot(chart);
  return plot.empty() ? "" : Legend(chart) + plot;
}

std::string RenderForBothWidths(BarChart chart) {
  const std::string wide = Plot(chart);
  if (wide.empty()) return "";
  chart.width = kBarChartNarrowWidth;
  return Legend(chart) + ForWidth(wide, Plot(chart));
}

}  // namespace braid
