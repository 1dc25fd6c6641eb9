#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "reproduce/forest_plot.h"
#include "reproduce/page_sections.h"

namespace braid {
namespace {

// Claims whose effects are this many times larger than those of the median claim have a separate
// plot. On the same scale, all others would be dots on the zero line.
constexpr double kLarge = 4;

// The judged effects of a claim in one unit.
struct JudgedEffects {
  int claim = 0;
  std::string unit;
  std::vector<ForestRow> rows;
  // Largest distance from zero.
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
      if (effects == all.end())
        effects = all.insert(all.end(), {.claim = claim.number, .unit = part.unit, .rows = {}});
      effects->rows.push_back({.part = part, .group = ClaimTitle(claim)});
      effects->extent = std::max(effects->extent, ExtentOf(part));
    }
  }
  return all;
}

// Returns the size from which on an effect is large; infinity if there is no other to compare with.
double LargeExtent(const std::vector<JudgedEffects>& all, const std::string& unit) {
  std::vector<double> extents;
  for (const JudgedEffects& effects : all) {
    if (effects.unit == unit && effects.extent > 0) extents.push_back(effects.extent);
  }
  if (extents.empty()) return std::numeric_limits<double>::infinity();
  std::ranges::sort(extents);
  return kLarge * extents[extents.size() / 2];
}

// Returns "Claims 4 and 9".
std::string ClaimsText(const std::vector<int>& numbers) {
  const size_t last = numbers.size() - 1;
  std::string text = absl::StrJoin(std::span(numbers).first(last), ", ");
  return absl::StrCat(last > 0 ? "Claims " : "Claim ", text, last > 0 ? " and " : "",
                      numbers[last]);
}

// Returns the plots of one unit: claims with usual effects, then claims with large ones.
std::vector<ForestPlot> PlotsOfUnit(const std::vector<JudgedEffects>& all,
                                    const std::string& unit) {
  const double large = LargeExtent(all, unit);
  std::vector<ForestPlot> plots = {
      {.description = absl::StrCat("Effects, ", unit), .x_label = unit}, {.x_label = unit}};
  std::vector<int> apart;
  for (const JudgedEffects& effects : all) {
    if (effects.unit != unit) continue;
    if (effects.extent > large) apart.push_back(effects.claim);
    std::vector<ForestRow>& rows = plots[effects.extent > large ? 1 : 0].rows;
    rows.insert(rows.end(), effects.rows.begin(), effects.rows.end());
  }
  if (apart.empty()) {
    plots.pop_back();
    return plots;
  }
  plots[1].description = absl::StrCat(ClaimsText(apart), ", on ",
                                      apart.size() > 1 ? "their" : "its", " own scale, ", unit);
  return plots;
}

std::vector<std::string> UnitsOf(const std::vector<JudgedEffects>& all) {
  std::vector<std::string> units;
  for (const JudgedEffects& effects : all) {
    if (std::ranges::find(units, effects.unit) == units.end()) units.push_back(effects.unit);
  }
  return units;
}

ForestKey KeyOf(const std::vector<JudgedEffects>& all) {
  ForestKey key;
  for (const JudgedEffects& effects : all) {
    for (const ForestRow& row : effects.rows) {
      if (SeedAllowance(row.part) > 0) key.allowance = true;
      if (row.part.estimate && !OfOneSeed(row.part)) key.single_seeds = true;
    }
  }
  return key;
}

// Names the effects with a rule that agrees with effects on both sides of zero; "" if there are
// none.
std::string StripText(const std::vector<JudgedEffects>& all, EffectRule kind,
                      const std::string& claimed) {
  std::vector<std::string> names;
  for (const JudgedEffects& effects : all) {
    for (const ForestRow& row : effects.rows) {
      if (row.part.rule->kind != kind) continue;
      names.push_back(
          absl::StrCat("\xE2\x80\x9C", row.part.name, "\xE2\x80\x9D (claim ", effects.claim, ")"));
    }
  }
  if (names.empty()) return "";
  return absl::StrCat("The claim of ", EscapeHtml(absl::StrJoin(names, ", ")), " is ", claimed,
                      ". ");
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
  return Section(
      "Judged effects",
      absl::StrCat(
          "Each effect with its ", ConfidenceText(reproduction),
          " interval. Effects to the right of zero agree with the claim. ",
          StripText(all, EffectRule::kEquivalent,
                    "that two losses are about equal, which effects within the strip agree with"),
          StripText(all, EffectRule::kNotInferior,
                    "that a loss is not much higher, which effects to the left of zero within the "
                    "strip agree with as well"),
          "The shaded strip is the margin of the rule."),
      plots.empty() ? "" : RenderForestKey(KeyOf(all)) + plots, "effects");
}

}  // namespace braid
