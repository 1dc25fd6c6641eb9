#include "report/plot_series.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"

namespace braid {

void PlotRange::Include(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

double ValueOrNan(const std::vector<double>& values, size_t i) {
  return i < values.size() ? values[i] : std::numeric_limits<double>::quiet_NaN();
}

std::vector<size_t> EvenlySpaced(size_t total, size_t count) {
  std::vector<size_t> places;
  count = std::min(total, count);
  for (size_t i = 0; i < count; ++i) {
    places.push_back(count == 1 ? 0 : i * (total - 1) / (count - 1));
  }
  return places;
}

std::string ColorClass(int color, const std::string& extra) {
  constexpr std::array<const char*, 3> kDashes = {"", " dashed", " dotted"};
  return absl::StrCat("c", color % kNumColors, kDashes[color / kNumColors % 3],
                      extra.empty() ? "" : " ", extra);
}

std::string RenderSwatch(int color) {
  return absl::StrCat("<span class=\"swatch ", ColorClass(color), "\"></span>");
}

std::string RenderLegend(const std::vector<PlotSeries>& series) {
  if (series.size() < 2) return "";
  std::string out = "<p class=\"legend\">";
  for (const PlotSeries& one : series) {
    absl::StrAppend(
        &out,
        one.css_class.empty() ? "<span>" : absl::StrCat("<span class=\"", one.css_class, "\">"),
        RenderSwatch(one.color), EscapeHtml(one.name), "</span> ");
  }
  return out + "</p>\n";
}

std::string ForWidth(const std::string& wide, const std::string& narrow) {
  if (wide.empty()) return "";
  return absl::StrCat("<div class=\"wide\">", wide, "</div><div class=\"narrow\">", narrow,
                      "</div>\n");
}

}  // namespace braid
