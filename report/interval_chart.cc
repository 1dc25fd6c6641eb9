#include "report/interval_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kIntervalChartTop = 6, kIntervalChartBottom = 44, kGroupGap = 10;
constexpr double kBarLane = 11, kDotLane = 9, kBarCap = 2.5;
// Space on the right: for the number after the longest bar, and for half a dot.
constexpr double kBarMargin = 50, kDotMargin = 14;
constexpr int kIntervalChartNarrowWidth = 370;

bool HasBars(const IntervalChart& chart) { return chart.marks == IntervalChart::Marks::kBars; }

double LaneHeight(const IntervalChart& chart) { return HasBars(chart) ? kBarLane : kDotLane; }

int LaneOf(const IntervalChart& chart, size_t series) {
  const int lane = chart.series[series].lane;
  return lane >= 0 ? lane : static_cast<int>(series);
}

double GroupHeight(const IntervalChart& chart) {
  int lanes = 0;
  for (size_t i = 0; i < chart.series.size(); ++i) lanes = std::max(lanes, LaneOf(chart, i) + 1);
  return LaneHeight(chart) * lanes + kGroupGap;
}

PlotRange RangeOfDots(const IntervalChart& chart) {
  PlotRange range;
  for (const IntervalChart::Series& series : chart.series) {
    for (const auto* values : {&series.values, &series.lows, &series.highs}) {
      for (const double value : *values) range.Include(value);
    }
  }
  if (range.empty()) return range;
  for (const double reference : chart.references) range.Include(reference);
  const double margin = 0.04 * (range.high - range.low);
  return {range.low - margin, range.high + margin};
}

// Returns an empty range without a value greater than zero.
PlotRange RangeOfBars(const IntervalChart& chart) {
  PlotRange range;
  range.Include(0);
  for (const IntervalChart::Series& series : chart.series) {
    for (const double value : series.values) range.Include(value);
    for (const double value : series.highs) range.Include(value);
  }
  return range.high > 0 ? PlotRange{0, range.high} : PlotRange{};
}

// One value of the chart and its position.
struct Mark {
  const IntervalChart& chart;
  const IntervalChart::Series& series;
  size_t label;
  const PlotScale& x;
  double middle;  // y

  double value() const { return ValueOrNan(series.values, label); }
  double low() const { return ValueOrNan(series.lows, label); }
  double high() const { return ValueOrNan(series.highs, label); }
  bool has_interval() const { return std::isfinite(low()) && std::isfinite(high()); }
};

std::string TitleOf(const Mark& mark) {
  const int digits = mark.chart.digits;
  std::string title = absl::StrCat(mark.chart.labels[mark.label], ", ", mark.series.name, ": ",
                                   FormatFixed(mark.value(), digits));
  if (mark.has_interval()) {
    absl::StrAppend(&title, " (", FormatFixed(mark.low(), digits), " to ",
                    FormatFixed(mark.high(), digits), ")");
  }
  return title;
}

std::string Dot(const Mark& mark) {
  const IntervalChart::Series& series = mark.series;
  const std::string interval =
      mark.has_interval() ? SvgInterval(mark.x, mark.low(), mark.high(), mark.middle, "range") : "";
  return absl::StrCat("<g class=\"", ColorClass(series.color, series.css_class), "\">", interval,
                      "<circle class=\"", series.hollow ? "hollow" : "dot", "\" cx=\"",
                      Pixel(mark.x(mark.value())), "\" cy=\"", Pixel(mark.middle),
                      "\" r=\"4\"><title>", EscapeHtml(TitleOf(mark)), "</title></circle></g>\n");
}

std::string Bar(const Mark& mark) {
  const IntervalChart::Series& series = mark.series;
  const double height = kBarLane - 1, end = mark.x(mark.value());
  const std::string css_class = series.css_class.empty() ? "" : " " + series.css_class;
  std::string out = SvgRectangle(
      mark.x.pixel_low, mark.middle - height / 2, std::max(1.0, end - mark.x.pixel_low), height,
      absl::StrCat("class=\"bar ", ColorClass(series.color, series.css_class), "\""),
      TitleOf(mark));
  double text = end;
  if (mark.has_interval()) {
    out +=
        SvgInterval(mark.x, mark.low(), mark.high(), mark.middle, "whisker" + css_class, kBarCap);
    text = std::max(text, mark.x(mark.high()));
  }
  return absl::StrCat(out,
                      SvgText(text + 4, mark.middle + height / 2 - 1, "start",
                              FormatFixed(mark.value(), mark.chart.digits), "small" + css_class),
                      "\n");
}

std::string Reference(const IntervalChart& chart, size_t label, const PlotScale& x, double top) {
  const double reference = ValueOrNan(chart.references, label);
  if (!std::isfinite(reference)) return "";
  return absl::StrCat(
      "<g class=\"reference\">",
      SvgLine(x(reference), top + 2, x(reference), top + GroupHeight(chart) - 2, "tick"), "<title>",
      EscapeHtml(absl::StrCat(chart.labels[label], ", ", chart.reference_name, ": ",
                              FormatFixed(reference, chart.digits))),
      "</title></g>");
}

std::string Group(const IntervalChart& chart, size_t label, const PlotScale& x, double left,
                  double top) {
  std::string out =
      SvgText(left - 8, top + GroupHeight(chart) / 2 + 4, "end", Shorten(chart.labels[label], 20)) +
      Reference(chart, label, x, top);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double middle = top + kGroupGap / 2 + LaneHeight(chart) * (LaneOf(chart, i) + 0.5);
    const Mark mark{chart, chart.series[i], label, x, middle};
    if (std::isfinite(mark.value())) out += HasBars(chart) ? Bar(mark) : Dot(mark);
  }
  return out;
}

std::string Legend(const IntervalChart& chart) {
  std::vector<PlotSeries> legend;
  for (const IntervalChart::Series& series : chart.series) {
    if (series.in_legend) {
      legend.push_back({series.name, series.color, {}, {}, series.css_class});
    }
  }
  return RenderLegend(legend);
}

std::string Plot(const IntervalChart& chart) {
  const PlotRange range = HasBars(chart) ? RangeOfBars(chart) : RangeOfDots(chart);
  if (chart.labels.empty() || range.empty()) return "";
  const double left = LabelWidth(chart.labels), height = GroupHeight(chart);
  const double right = chart.width - (HasBars(chart) ? kBarMargin : kDotMargin);
  const double bottom = kIntervalChartTop + height * static_cast<double>(chart.labels.size());
  const PlotScale x = ScaleOf(range.low, range.high, left, right);
  std::string bands, groups;
  for (size_t label = 0; label < chart.labels.size(); ++label) {
    const double top = kIntervalChartTop + height * static_cast<double>(label);
    if (!HasBars(chart) && label % 2 == 0) {
      bands += SvgRectangle(0, top, chart.width, height, "class=\"band\"", "");
    }
    groups += Group(chart, label, x, left, top);
  }
  return SvgElement(chart.width, bottom + kIntervalChartBottom, chart.description,
                    bands + XAxis(x, kIntervalChartTop, bottom, chart.x_label) + groups);
}

}  // namespace

std::string RenderForBothWidths(IntervalChart chart) {
  const std::string wide = Plot(chart);
  if (wide.empty()) return "";
  chart.width = kIntervalChartNarrowWidth;
  return Legend(chart) + ForWidth(wide, Plot(chart));
}

}  // namespace braid
