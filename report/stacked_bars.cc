#include "report/stacked_bars.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/svg_frame.h"

namespace braid {
namespace {

constexpr double kStackedBarsBarHeight = 18, kStackedBarsRow = 26, kStackedBarsTop = 6,
                 kStackedBarsBottom = 44;
constexpr int kStackedBarsNarrowWidth = 370;
constexpr double kStackedBarsLabelLength = 20;

double Positive(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

double TotalOf(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += Positive(value);
  return total;
}

std::string ClassOf(const StackedBars& bars, size_t part) {
  return bars.neutral_last && part + 1 == bars.parts.size() ? "rest"
                                                            : ColorClass(static_cast<int>(part));
}

std::string Stack(const StackedBars& bars, size_t label, const PlotScale& x, double y) {
  const double total = TotalOf(bars.values[label]);
  double start = 0;
  std::string out;
  for (size_t part = 0; part < bars.parts.size(); ++part) {
    const double value = Positive(ValueOrNan(bars.values[label], part));
    if (value == 0) continue;
    out +=
        SvgRectangle(x(start), y, std::max(0.5, x(start + value) - x(start) - 0.7),
                     kStackedBarsBarHeight, absl::StrCat("class=\"bar ", ClassOf(bars, part), "\""),
                     absl::StrCat(bars.labels[label], ", ", bars.parts[part], ": ",
                                  FormatFixed(value, bars.digits), " ", bars.unit, " (",
                                  FormatFixed(100 * value / total, 1), " %)"));
    start += value;
  }
  return out + SvgText(x(start) + 5, y + 13, "start", FormatFixed(total, bars.digits), "small") +
         "\n";
}

std::string Plot(const StackedBars& bars) {
  double longest = 0;
  for (const std::vector<double>& values : bars.values) {
    longest = std::max(longest, TotalOf(values));
  }
  if (!(longest > 0)) return "";
  const double left = LabelWidth(bars.labels);
  const double bottom = kStackedBarsTop + kStackedBarsRow * static_cast<double>(bars.labels.size());
  const PlotScale x = ScaleOf(0, longest, left, bars.width - 50);
  std::string content = XAxis(x, kStackedBarsTop - 2, bottom, bars.x_label);
  for (size_t label = 0; label < bars.labels.size(); ++label) {
    const double y = kStackedBarsTop + kStackedBarsRow * static_cast<double>(label) +
                     (kStackedBarsRow - kStackedBarsBarHeight) / 2;
    const std::string stack =
        SvgText(left - 8, y + 13, "end", Shorten(bars.labels[label], kStackedBarsLabelLength)) +
        Stack(bars, label, x, y);
    absl::StrAppend(&content, "<g class=\"",
                    label < bars.css_classes.size() ? bars.css_classes[label] : "", "\">", stack,
                    "</g>\n");
  }
  return SvgElement(bars.width, bottom + kStackedBarsBottom, bars.description, content);
}

std::string Legend(const StackedBars& bars) {
  std::string legend;
  for (size_t part = 0; part < bars.parts.size(); ++part) {
    const bool shown = std::any_of(bars.values.begin(), bars.values.end(), [&](const auto& values) {
      return Positive(ValueOrNan(values, part)) > 0;
    });
    if (!shown) continue;
    absl::StrAppend(&legend, "<span><span class=\"swatch ", ClassOf(bars, part), "\"></span>",
                    EscapeHtml(bars.parts[part]), "</span> ");
  }
  return absl::StrCat("<p class=\"legend\">", legend, "</p>\n");
}

}  // namespace

std::string RenderStackedBars(StackedBars bars) {
  const std::string wide = Plot(bars);
  if (wide.empty()) return "";
  bars.width = kStackedBarsNarrowWidth;
  return Legend(bars) + ForWidth(wide, Plot(bars));
}

}  // namespace braid
