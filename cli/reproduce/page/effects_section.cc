#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/reproduce/page/forest_plot.h"
#include "cli/reproduce/page/page_sections.h"
#include "trainer/report/html_page.h"
#include "trainer/report/html_text.h"
#include "trainer/report/plot_series.h"

namespace braid {
namespace {

// Claims whose effects reach this many times farther than those of the median claim have a plot of
// their own: on one scale, all others would be dots on the zero line.
constexpr double kLarge = 4;

// The judged effects of a claim in one unit.
struct JudgedEffects {
  std::string unit;
  std::vector<ForestRow> rows;
  // How far from zero they reach.
  double extent = 0;
};

double ExtentOf(const ClaimPart& part) {
  if (!part.estimate) return 0;
  PlotRange range;
  for (const double value : {part.estimate->effect, part.estimate->low, part.estimate->high}) {
    range.Include(std::abs(value));
  }
  return range.empty() ? 0 : range.high;
}

std::vector<JudgedEffects> AllEffects(const Reproduction& reproduction) {
  std::vector<JudgedEffects> all;
  for (const Claim& claim : reproduction.claims) {
    const size_t first = all.size();
    for (const ClaimPart& part : claim.parts) {
      if (!part.rule) continue;
      auto effects = std::find_if(all.begin() + static_cast<int64_t>(first), all.end(),
                                  [&](const auto& known) { return known.unit == part.unit; });
      if (effects == all.end()) effects = all.insert(all.end(), {.unit = part.unit, .rows = {}});
      effects->rows.push_back({.part = part, .group = ClaimTitle(claim)});
      effects->extent = std::max(effects->extent, ExtentOf(part));
    }
  }
  return all;
}

// From which on an effect is large; infinite when there is none to compare with.
double LargeExtent(const std::vector<JudgedEffects>& all, const std::string& unit) {
  std::vector<double> extents;
  for (const JudgedEffects& effects : all) {
    if (effects.unit == unit && effects.extent > 0) extents.push_back(effects.extent);
  }
  if (extents.empty()) return std::numeric_limits<double>::infinity();
  std::ranges::sort(extents);
  return kLarge * extents[extents.size() / 2];
}

// Of one unit: claims with usual effects, then those with large ones.
std::vector<ForestPlot> PlotsOfUnit(const std::vector<JudgedEffects>& all,
                                    const std::string& unit) {
  const double large = LargeExtent(all, unit);
  std::vector<ForestPlot> plots = {
      {.description = absl::StrCat("Effects, ", unit), .x_label = unit},
      {.description = absl::StrCat("Larger effects, ", unit), .x_label = unit}};
  for (const JudgedEffects& effects : all) {
    if (effects.unit != unit) continue;
    std::vector<ForestRow>& rows = plots[effects.extent > large ? 1 : 0].rows;
    rows.insert(rows.end(), effects.rows.begin(), effects.rows.end());
  }
  return plots;
}

std::vector<std::string> UnitsOf(const std::vector<JudgedEffects>& all) {
  std::vector<std::string> units;
  for (const JudgedEffects& effects : all) {
    if (std::ranges::find(units, effects.unit) == units.end()) units.push_back(effects.unit);
  }
  return units;
}

}  // namespace

std::string EffectsSection(const Reproduction& reproduction) {
  const std::vector<JudgedEffects> all = AllEffects(reproduction);
  std::string plots;
  for (const std::string& unit : UnitsOf(all)) {
    for (const ForestPlot& plot : PlotsOfUnit(all, unit)) {
      const std::string svg = RenderForestPlot(plot);
      if (svg.empty()) continue;
      absl::StrAppend(&plots, "<figure><h3>", EscapeHtml(plot.description), "</h3>\n", svg,
                      "</figure>\n");
    }
  }
  return Section("Judged effects",
                 absl::StrCat("Each effect with its ", ConfidenceText(reproduction),
                              " interval; right of zero is as claimed. The shaded strip is the "
                              "margin of that effect's rule."),
                 plots.empty() ? "" : RenderForestKey(NumSeeds(reproduction) == 1) + plots,
                 "effects");
}

}  // namespace braid
