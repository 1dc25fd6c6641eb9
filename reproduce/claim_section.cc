#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "reproduce/effect_text.h"
#include "reproduce/forest_plot.h"
#include "reproduce/page_sections.h"
#include "reproduce/series_figures.h"
#include "reproduce/verdict_mark.h"

namespace braid {
namespace {

constexpr char kMinus[] = "\xE2\x88\x92";

std::string RuleText(const VerdictRule& rule) {
  const std::string margin = FormatFixed(rule.margin, 2);
  switch (rule.kind) {
    case EffectRule::kPositive:
      return absl::StrCat("above 0, margin ", margin);
    case EffectRule::kEquivalent:
      return absl::StrCat("within \xC2\xB1", margin);
    case EffectRule::kNotInferior:
      return absl::StrCat("above ", kMinus, margin);
  }
  return "";
}

std::string SeedsText(const EffectEstimate& estimate) {
  return absl::StrJoin(estimate.by_seed, ", ", [](std::string* out, double value) {
    absl::StrAppend(out, EffectNumber(value));
  });
}

std::string RuleCell(const ClaimPart& part) {
  if (part.rule) return RuleText(*part.rule);
  return part.is_difference ? "not judged" : "not judged, a share";
}

std::string IntervalCell(const EffectEstimate& estimate) {
  return HasInterval(estimate) ? IntervalText(estimate) : "none";
}

HtmlTable::Row PartRow(const ClaimPart& part) {
  std::string effect = EffectNumber(std::nan(""));
  std::string interval, seeds;
  if (part.estimate) {
    effect = EffectNumber(part.estimate->effect);
    interval = IntervalCell(*part.estimate);
    const double allowance = SeedAllowance(part);
    if (allowance > 0) absl::StrAppend(&interval, " \xC2\xB1", FormatFixed(allowance, 2));
    seeds = SeedsText(*part.estimate);
  }
  return {{EscapeHtml(part.name), effect, interval, part.rule ? VerdictBadge(part.verdict) : "",
           RuleCell(part), seeds, EscapeHtml(part.unit)}};
}

std::string PartsTable(const Claim& claim) {
  HtmlTable table{.header = {"effect", "value", "interval", "verdict", "rule", "by seed", "unit"},
                  .rows = {}};
  for (const ClaimPart& part : claim.parts) table.rows.push_back(PartRow(part));
  if (table.rows.empty()) return "";
  return absl::StrCat("<div class=\"parts\">", RenderTable(table), "</div>\n");
}

// Returns each reason once, with the effects to which it applies.
std::string MissingList(const Claim& claim) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const ClaimPart& part : claim.parts) {
    if (part.estimate) continue;
    auto reason = reasons.begin();
    while (reason != reasons.end() && reason->first != part.missing) ++reason;
    if (reason == reasons.end()) reason = reasons.insert(reason, {part.missing, {}});
    reason->second.push_back(part.name);
  }
  std::string items;
  for (const auto& [reason, parts] : reasons) {
    absl::StrAppend(&items, "<li>", EscapeHtml(reason), ": ",
                    EscapeHtml(absl::StrJoin(parts, "; ")), "</li>\n");
  }
  if (items.empty()) return "";
  return absl::StrCat("<p>Not measured:</p>\n<ul class=\"findings\">\n", items, "</ul>\n");
}

// Returns one plot per unit with the effects that are differences.
std::vector<ForestPlot> PlotsOf(const Claim& claim) {
  std::vector<ForestPlot> plots;
  for (const ClaimPart& part : claim.parts) {
    if (!part.estimate || !part.is_difference) continue;
    auto plot = plots.begin();
    while (plot != plots.end() && plot->x_label != part.unit) ++plot;
    if (plot == plots.end()) {
      plot = plots.insert(
          plot, {.description = absl::StrCat("Effects of claim ", claim.number, ", ", part.unit),
                 .x_label = part.unit});
    }
    plot->rows.push_back({.part = part});
  }
  return plots;
}

std::string Notes(const Claim& claim) {
  std::string out;
  for (const std::string& caution : claim.cautions) {
    absl::StrAppend(&out, "<p class=\"sentence\"><strong>", EscapeHtml(caution), "</strong></p>\n");
  }
  for (const std::string& note : claim.notes) {
    absl::StrAppend(&out, "<p class=\"sentence\">", EscapeHtml(note), "</p>\n");
  }
  return out;
}

std::string PaperSentence(const Claim& claim) {
  if (claim.source.empty()) return "The paper does not report this.";
  return absl::StrCat("In the paper (", EscapeHtml(claim.source),
                      "): ", EscapeHtml(claim.paper_result), ".");
}

}  // namespace

std::string ClaimId(const Claim& claim) { return absl::StrCat("claim-", claim.number); }

std::string ClaimTitle(const Claim& claim) {
  std::string name = claim.name;
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return absl::StrCat(claim.number, ". ", name);
}

std::string ClaimSection(const Claim& claim) {
  std::string plots;
  for (const ForestPlot& plot : PlotsOf(claim)) plots += RenderForestPlot(plot);
  const std::string body =
      absl::StrCat("<p class=\"sentence\">", EscapeHtml(claim.sentence), "</p>\n", Notes(claim),
                   PartsTable(claim), MissingList(claim), plots, RenderSeries(claim.series));
  return Section(EscapeHtml(ClaimTitle(claim)),
                 absl::StrCat(VerdictBadge(claim.verdict), ". ", PaperSentence(claim)), body,
                 ClaimId(claim));
}

}  // namespace braid
