#include "report/heat_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kWidth = 426;
constexpr double kCellHeight = 22;
constexpr double kWidestCell = 48;
constexpr double kOutlier = 2, kQuantile = 0.98;

std::string Cell(const HeatMap& map, size_t row, int column, double x, double y, double width) {
  const double value = ValueOrNan(map.values[row], static_cast<size_t>(column));
  if (!std::isfinite(value)) return "";
  const double share = std::clamp((value - map.low) / (map.high - map.low), 0.0, 1.0);
  std::string out = SvgRectangle(
      x, y, width - std::min(1.0, 0.15 * width), kCellHeight - 1,
      absl::StrCat("class=\"heat\" fill-opacity=\"", FormatFixed(kFullShade * share, 3), "\""),
      absl::StrCat(map.rows[row], ", ", map.column_name, " ", column, ": ", FormatFixed(value, 3)));
  if (width >= 30) {
    absl::StrAppend(&out,
                    SvgText(x + width / 2 - 0.5, y + 15, "middle", FormatFixed(value, 2), "cell"));
  }
  return out;
}

}  // namespace

std::string RenderHeatMap(const HeatMap& map) {
  if (map.rows.empty() || map.num_columns <= 0) return "";
  const double left = LabelWidth(map.rows);
  const double width = std::min(kWidestCell, (kWidth - left - 4) / map.num_columns);
  const double bottom = 4 + kCellHeight * static_cast<double>(map.rows.size());
  // Each column has a number if there is space for it.
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

HeatTop HeatTopOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const double quantile = values[static_cast<size_t>(std::floor(kQuantile * last))];
  const bool capped = quantile > 0 && values.back() > kOutlier * quantile;
  return {capped ? quantile : values.back(), capped};
}

std::string RenderHeatScale(double low, const HeatTop& top, double mark,
                            const std::string& mark_name) {
  const double high = top.high;
  constexpr int kSteps = 24;
  constexpr double kLeft = 40, kScaleWidth = 240, kBar = 12;
  if (!(high > low)) return "";
  std::string content;
  for (int i = 0; i < kSteps; ++i) {
    content += SvgRectangle(kLeft + kScaleWidth * i / kSteps, 2, kScaleWidth / kSteps, kBar,
                            absl::StrCat("class=\"heat\" fill-opacity=\"",
                                         FormatFixed(kFullShade * (i + 0.5) / kSteps, 3), "\""),
                            "");
  }
  const PlotScale x = ScaleOf(low, high, kLeft, kLeft + kScaleWidth);
  content +=
      SvgText(kLeft - 5, 12, "end", FormatFixed(low, 2), "small") +
      SvgText(kLeft + kScaleWidth + 5, 12, "start",
              absl::StrCat(top.capped ? "\xE2\x89\xA5 " : "", FormatFixed(high, 2)), "small");
  if (mark >= low && mark <= high) {
    content += SvgLine(x(mark), 0, x(mark), kBar + 6, "axis") +
               SvgText(x(mark), kBar + 17, 2 * mark > low + high ? "end" : "start",
                       absl::StrCat(mark_name, " ", FormatFixed(mark, 3)), "small");
  }
  return absl::StrCat(
      "<div class=\"scale\">",
      SvgElement(kLeft + kScaleWidth + 40, kBar + 22,
                 absl::StrCat("Shades from ", FormatFixed(low, 2), " to ", FormatFixed(high, 2)),
                 content),
      "</div>\n");
}

}  // namespace braid
