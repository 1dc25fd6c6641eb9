#include "report/dot_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kLane = 9, kGap = 10, kDotChartTop = 6, kDotChartBottom = 44;
constexpr int kDotChartNarrowWidth = 370;

int LaneOf(const DotChart& chart, size_t series) {
  const int lane = chart.series[series].lane;
  return lane >= 0 ? lane : static_cast<int>(series);
}

double GroupHeight(const DotChart& chart) {
  int lanes = 0;
  for (size_t i = 0; i < chart.series.size(); ++i) lanes = std::max(lanes, LaneOf(chart, i) + 1);
  return kLane * lanes + kGap;
}

PlotRange RangeOf(const DotChart& chart) {
  PlotRange range;
  for (const DotChart::Series& series : chart.series) {
    for (const auto* values : {&series.values, &series.lows, &series.highs}) {
      for (const double value : *values) range.Include(value);
    }
  }
  if (range.empty()) return range;
  for (const double reference : chart.references) range.Include(reference);
  const double margin = 0.04 * (range.high - range.low);
  return {range.low - margin, range.high + margin};
}

std::string Dot(const DotChart& chart, const DotChart::Series& series, size_t label,
                const PlotScale& x, double y) {
  const double value = ValueOrNan(series.values, label);
  if (!std::isfinite(value)) return "";
  const double low = ValueOrNan(series.lows, label), high = ValueOrNan(series.highs, label);
  std::string title =
      absl::StrCat(chart.labels[label], ", ", series.name, ": ", FormatFixed(value, chart.digits));
  std::string whisker;
  if (std::isfinite(low) && std::isfinite(high)) {
    absl::StrAppend(&title, " (", FormatFixed(low, chart.digits), " to ",
                    FormatFixed(high, chart.digits), ")");
    whisker = absl::StrCat("<path class=\"range\" d=\"M", Pixel(x(low)), " ", Pixel(y), "H",
                           Pixel(x(high)), "\"/>");
  }
  return absl::StrCat("<g class=\"", ColorClass(series.color, series.css_class), "\">", whisker,
                      "<circle class=\"", series.hollow ? "hollow" : "dot", "\" cx=\"",
                      Pixel(x(value)), "\" cy=\"", Pixel(y), "\" r=\"4\"><title>",
                      EscapeHtml(title), "</title></circle></g>\n");
}

std::string Group(const DotChart& chart, size_t label, const PlotScale& x, double left,
                  double top) {
  const double height = GroupHeight(chart);
  std::string out =
      SvgText(left - 8, top + height / 2 + 4, "end", Shorten(chart.labels[label], 20));
  const double reference = ValueOrNan(chart.references, label);
  if (std::isfinite(reference)) {
    absl::StrAppend(&out, "<g class=\"reference\">",
                    SvgLine(x(reference), top + 2, x(reference), top + height - 2, "tick"),
                    "<title>",
                    EscapeHtml(absl::StrCat(chart.labels[label], ", ", chart.reference_name, ": ",
                                            FormatFixed(reference, chart.digits))),
                    "</title></g>");
  }
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double y = top + kGap / 2 + kLane * (LaneOf(chart, i) + 0.5);
    out += Dot(chart, chart.series[i], label, x, y);
  }
  return out;
}

std::string Legend(const DotChart& chart) {
  std::vector<PlotSeries> legend;
  for (const DotChart::Series& series : chart.series) {
    if (series.in_legend) {
      legend.push_back({series.name, series.color, {}, {}, series.css_class});
    }
  }
  return RenderLegend(legend);
}

std::string Plot(const DotChart& chart) {
  const PlotRange range = RangeOf(chart);
  if (chart.labels.empty() || range.empty()) return "";
  const double left = LabelWidth(chart.labels);
  const double height = GroupHeight(chart);
  const double bottom = kDotChartTop + height * static_cast<double>(chart.labels.size());
  const PlotScale x = ScaleOf(range.low, range.high, left, chart.width - 14);
  std::string bands, groups;
  for (size_t label = 0; label < chart.labels.size(); ++label) {
    const double top = kDotChartTop + height * static_cast<double>(label);
    if (label % 2 == 0) {
      bands += SvgRectangle(0, top, chart.width, height, "class=\"band\"", "");
    }
    groups += Group(chart, label, x, left, top);
  }
  return SvgElement(chart.width, bottom + kDotChartBottom, chart.description,
                    bands + XAxis(x, kDotChartTop, bottom, chart.x_label) + groups);
}

}  // namespace

std::string RenderDotChart(const DotChart& chart) {
  const std::string plot = Plot(chart);
  return plot.empty() ? "" : Legend(chart) + plot;
}

std::string RenderForBothWidths(DotChart chart) {
  const std::string wide = Plot(chart);
  if (wide.empty()) return "";
  chart.width = kDotChartNarrowWidth;
  return Legend(chart) + ForWidth(wide, Plot(chart));
}

}  // namespace braid
