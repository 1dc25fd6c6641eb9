#include "report/time_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kTimeLineBarHeight = 12, kTimeLineRow = 28, kTimeLineTop = 6, kTimeLineBottom = 44;
constexpr int kTimeLineNarrowWidth = 370;

struct TimeUnit {
  double seconds;
  const char* label;
};

TimeUnit UnitFor(double seconds) {
  if (seconds < 180) return {1, "seconds since the start"};
  if (seconds < 3 * 3600) return {60, "minutes since the start"};
  if (seconds < 4 * 86400) return {3600, "hours since the start"};
  return {86400, "days since the start"};
}

double Longest(const TimeLine& line) {
  double longest = 0;
  for (const TimeLine::Row& row : line.rows) {
    for (const TimeLine::Stretch& stretch : row.stretches) longest = std::max(longest, stretch.end);
    for (const TimeLine::Mark& mark : row.marks) longest = std::max(longest, mark.time);
  }
  return longest;
}

std::string RowOf(const TimeLine::Row& row, const PlotScale& x, double unit, double left,
                  double top) {
  std::string out = absl::StrCat("<g class=\"", ColorClass(row.color, row.css_class), "\">",
                                 SvgText(left - 8, top + 17, "end", Shorten(row.label, 20)));
  const double y = top + (kTimeLineRow - kTimeLineBarHeight) / 2;
  for (const TimeLine::Stretch& stretch : row.stretches) {
    const double start = x(stretch.start / unit);
    out += SvgRectangle(start, y, std::max(0.5, x(stretch.end / unit) - start), kTimeLineBarHeight,
                        absl::StrCat("class=\"", stretch.css_class, "\""), stretch.title);
  }
  for (const TimeLine::Mark& mark : row.marks) {
    absl::StrAppend(&out, "<path class=\"incident\" d=\"M", Pixel(x(mark.time / unit) - 5), " ",
                    Pixel(y - 7), "h10l-5 9z\"><title>", EscapeHtml(mark.title), "</title></path>");
  }
  return out + "</g>\n";
}

std::string Plot(const TimeLine& line) {
  std::vector<std::string> labels;
  for (const TimeLine::Row& row : line.rows) labels.push_back(row.label);
  const double left = LabelWidth(labels);
  const double longest = Longest(line);
  const TimeUnit unit = UnitFor(longest);
  const double bottom = kTimeLineTop + kTimeLineRow * static_cast<double>(line.rows.size());
  const PlotScale x = ScaleOf(0, std::max(longest / unit.seconds, 1e-3), left, line.width - 20);
  std::string content = XAxis(x, kTimeLineTop - 2, bottom, unit.label);
  for (size_t i = 0; i < line.rows.size(); ++i) {
    content += RowOf(line.rows[i], x, unit.seconds, left,
                     kTimeLineTop + kTimeLineRow * static_cast<double>(i));
  }
  return SvgElement(line.width, bottom + kTimeLineBottom, line.description, content);
}

}  // namespace

std::string RenderTimeLine(TimeLine line) {
  if (line.rows.empty()) return "";
  const std::string wide = Plot(line);
  line.width = kTimeLineNarrowWidth;
  return ForWidth(wide, Plot(line));
}

}  // namespace braid
