#include "report/line_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/line_readout.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kLeft = 56, kRight = 14, kLineChartTop = 26, kLineChartBottom = 44;
// Labels at the ends of lines.
constexpr double kLineChartLabelLength = 20;
constexpr double kLabelHeight = 13;
// Radius of points without a line; points at the ends of the axis are not clipped.
constexpr double kDotRadius = 3;
constexpr double kLabelReach = 60;
constexpr int kLineChartNarrowWidth = 360, kNarrowHeight = 270;
// Coordinates are clamped to this distance from the plot.
constexpr double kFarOutside = 500;

bool IsFinite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// Returns one path with gaps where a value is not finite.
std::string PathOf(const std::vector<PlotPoint>& points, const PlotScale& x, const PlotScale& y,
                   const std::string& css_class) {
  std::string path;
  bool drawing = false;
  for (const PlotPoint& point : points) {
    if (IsFinite(point)) {
      const double height =
          std::clamp(y(point.y), y.pixel_high - kFarOutside, y.pixel_low + kFarOutside);
      absl::StrAppend(&path, drawing ? "L" : "M", Pixel(x(point.x)), " ", Pixel(height));
    }
    drawing = IsFinite(point);
  }
  if (path.empty()) return "";
  return absl::StrCat("<path class=\"", css_class, "\" d=\"", path, "\"/>\n");
}

// Draws points between two missing ones, which a line would not show.
std::string DotsOf(const PlotSeries& series, const PlotScale& x, const PlotScale& y) {
  const std::vector<PlotPoint>& points = series.points;
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    const bool before = i > 0 && IsFinite(points[i - 1]);
    const bool after = i + 1 < points.size() && IsFinite(points[i + 1]);
    if (!IsFinite(points[i]) || before || after) continue;
    absl::StrAppend(&out, "<circle class=\"dot ", ColorClass(series.color, series.css_class),
                    "\" cx=\"", Pixel(x(points[i].x)), "\" cy=\"", Pixel(y(points[i].y)), "\" r=\"",
                    kDotRadius, "\"/>\n");
  }
  return out;
}

PlotRange XRange(const LineChart& chart) {
  PlotRange range;
  for (const PlotSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (IsFinite(point)) range.Include(point.x);
    }
  }
  if (!range.empty()) range.Include(0);
  return range;
}

// Returns the range of the points from `start` on, or of all points if there are none.
PlotRange YRange(const LineChart& chart, double start) {
  PlotRange late, all;
  for (const PlotSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (!IsFinite(point)) continue;
      all.Include(point.y);
      if (point.x >= start) late.Include(point.y);
    }
  }
  PlotRange range = late.empty() ? all : late;
  if (chart.y_min) range.Include(*chart.y_min);
  if (chart.y_max) range.Include(*chart.y_max);
  return range;
}

struct EndLabel {
  const PlotSeries* series;
  double end;     // y of the end of the line
  double height;  // y of the label
};

// Places the labels at least kLabelHeight apart between `top` and `bottom`, in the order of the
// ends.
void SpreadLabels(double top, double bottom, std::vector<EndLabel>* labels) {
  std::stable_sort(labels->begin(), labels->end(),
                   [](const EndLabel& a, const EndLabel& b) { return a.end < b.end; });
  double free = top;
  for (EndLabel& label : *labels) {
    label.height = std::max(label.end, free);
    free = label.height + kLabelHeight;
  }
  double limit = bottom;
  for (auto label = labels->rbegin(); label != labels->rend(); ++label) {
    label->height = std::min(label->height, limit);
    limit = label->height - kLabelHeight;
  }
}

std::vector<EndLabel> LabelsOf(const LineChart& chart, const PlotScale& x, const PlotScale& y) {
  std::vector<EndLabel> labels;
  for (const PlotSeries& series : chart.series) {
    const auto last = std::find_if(series.points.rbegin(), series.points.rend(), IsFinite);
    // A line that ends far from its label is named only in the legend.
    if (last == series.points.rend() || x(last->x) < x.pixel_high - kLabelReach) continue;
    labels.push_back({&series, std::clamp(y(last->y), y.pixel_high, y.pixel_low), 0});
  }
  SpreadLabels(y.pixel_high + 4, y.pixel_low, &labels);
  return labels;
}

std::string EndLabels(const LineChart& chart, const PlotScale& x, const PlotScale& y) {
  std::string out;
  for (const EndLabel& label : LabelsOf(chart, x, y)) {
    const std::string classes = ColorClass(label.series->color, label.series->css_class);
    absl::StrAppend(&out, "<g class=\"end ", label.series->css_class, "\"><path class=\"leader ",
                    classes, "\" d=\"M", Pixel(x.pixel_high + 2), " ", Pixel(label.end), "L",
                    Pixel(x.pixel_high + 12), " ", Pixel(label.height), "h6\"/>",
                    SvgText(x.pixel_high + 21, label.height + 4, "start",
                            Shorten(label.series->name, kLineChartLabelLength), "label"),
                    "</g>\n");
  }
  return out;
}

double RightMargin(const LineChart& chart) {
  if (!chart.direct_labels) return kRight;
  double widest = 0;
  for (const PlotSeries& series : chart.series) {
    widest = std::max(widest, TextWidth(Shorten(series.name, kLineChartLabelLength), 11));
  }
  return 26 + widest;
}

std::string MarksOf(const LineChart& chart, const PlotScale& x, const PlotScale& y) {
  std::string out;
  for (const PlotMark& mark : chart.marks) {
    if (!std::isfinite(mark.x) || mark.x < x.low || mark.x > x.high) continue;
    const double at = x(mark.x);
    absl::StrAppend(&out, "<g class=\"mark ", ColorClass(mark.color, mark.css_class), "\">",
                    SvgLine(at, y.pixel_high, at, y.pixel_low, "event"), "<path d=\"M",
                    Pixel(at - 5), " ", Pixel(y.pixel_high - 8), "h10l-5 8z\"><title>",
                    EscapeHtml(mark.title), "</title></path></g>\n");
  }
  return out;
}

}  // namespace

std::string RenderLinePlot(const LineChart& chart) {
  const PlotRange xs = XRange(chart);
  if (xs.empty()) return "";
  const PlotRange ys = YRange(chart, xs.high * chart.settling);
  const double bottom = chart.height - kLineChartBottom;
  const double right = chart.width - RightMargin(chart);
  const PlotScale x = ScaleOf(xs.low, xs.high, kLeft, right);
  const double margin = 0.03 * (ys.high - ys.low);
  const PlotScale y = ScaleOf(ys.low - margin, ys.high + margin, bottom, kLineChartTop);
  std::string lines;
  for (const PlotSeries& series : chart.series) {
    lines += PathOf(series.raw, x, y, "raw " + ColorClass(series.color, series.css_class));
  }
  for (const PlotSeries& series : chart.series) {
    lines += PathOf(series.points, x, y, "line " + ColorClass(series.color, series.css_class));
    lines += DotsOf(series, x, y);
  }
  std::string content =
      XAxis(x, kLineChartTop, bottom, chart.x_label) + YAxis(y, kLeft, right, chart.y_label) +
      MarksOf(chart, x, y) +
      Clipped(kLeft - kDotRadius, kLineChartTop, right + kDotRadius, bottom, lines);
  if (chart.direct_labels) content += EndLabels(chart, x, y);
  content += RenderReadout(chart, x, y);
  return SvgElement(chart.width, chart.height, chart.description, content);
}

std::string RenderLineChart(const LineChart& chart) {
  const std::string plot = RenderLinePlot(chart);
  return plot.empty() ? "" : RenderLegend(chart.series) + plot;
}

std::string RenderForBothWidths(LineChart chart) {
  const std::string wide = RenderLinePlot(chart);
  if (wide.empty()) return "";
  chart.width = kLineChartNarrowWidth;
  chart.height = kNarrowHeight;
  chart.direct_labels = false;
  return RenderLegend(chart.series) + ForWidth(wide, RenderLinePlot(chart));
}

}  // namespace braid
