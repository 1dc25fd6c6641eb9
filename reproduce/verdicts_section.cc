#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "reproduce/effect_text.h"
#include "reproduce/page_sections.h"
#include "reproduce/verdict_mark.h"

namespace braid {
namespace {

std::string CountOf(const Reproduction& reproduction, Verdict verdict) {
  const auto count = std::ranges::count(reproduction.claims, verdict, &Claim::verdict);
  const std::string badge = VerdictBadge(verdict, absl::StrCat(count, " ", VerdictName(verdict)));
  const auto wanting = std::ranges::count_if(reproduction.claims, NeedsSecondSeed);
  if (verdict != Verdict::kInconclusive || wanting == 0) return badge;
  return absl::StrCat("<span>", badge, ", ", wanting,
                      " of them because there is no second seed</span>");
}

std::string Counts(const Reproduction& reproduction) {
  std::string out = "<p class=\"counts\">";
  for (const Verdict verdict :
       {Verdict::kShown, Verdict::kNotShown, Verdict::kInconclusive, Verdict::kNotMeasured}) {
    absl::StrAppend(&out, CountOf(reproduction, verdict), "\n");
  }
  return out + "</p>\n";
}

std::string PartHtml(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat("not measured: ", EscapeHtml(part.missing));
  const std::string interval = IntervalText(*part.estimate);
  return absl::StrCat("<span class=\"measured\"><strong>", EffectNumber(part.estimate->effect),
                      "</strong> ", interval.empty() ? "" : interval + " ", EscapeHtml(part.unit),
                      "</span> <span class=\"measured\">", SeedText(part), "</span>");
}

std::string PartItem(const ClaimPart& part) {
  return absl::StrCat("<li>", VerdictBadge(part.verdict, ""), EscapeHtml(part.name), ": ",
                      PartHtml(part), "</li>\n");
}

std::string CautionItems(const Claim& claim) {
  std::string items;
  for (const std::string& caution : claim.cautions) {
    absl::StrAppend(&items, "<li class=\"caution\">", EscapeHtml(caution), "</li>\n");
  }
  return items;
}

std::string PaperSource(const Claim& claim) {
  if (claim.source.empty()) return "Not a claim of the paper.";
  return absl::StrCat("Paper, ", EscapeHtml(claim.source), ": ", EscapeHtml(claim.paper_result),
                      ".");
}

std::string ClaimRow(const Claim& claim) {
  std::string parts;
  for (const ClaimPart& part : claim.parts) {
    if (part.rule) parts += PartItem(part);
  }
  if (parts.empty()) parts = "<li>No effect was judged.</li>\n";
  return absl::StrCat("<div class=\"claim\">\n<h3><a href=\"#", ClaimId(claim), "\">",
                      EscapeHtml(ClaimTitle(claim)), "</a></h3>\n<p class=\"outcome\">",
                      VerdictBadge(claim.verdict), NeedsSecondSeed(claim) ? " (one seed)" : "",
                      "</p>\n<ul>\n", parts, CautionItems(claim), "</ul>\n<p class=\"paper\">",
                      PaperSource(claim), "</p>\n</div>\n");
}

// Returns the numbers of the claims with a judged effect of one seed.
std::vector<int> ClaimsOfOneSeed(const Reproduction& reproduction) {
  std::vector<int> numbers;
  for (const Claim& claim : reproduction.claims) {
    const bool found = std::ranges::any_of(
        claim.parts, [](const ClaimPart& part) { return part.rule && OfOneSeed(part); });
    if (found) numbers.push_back(claim.number);
  }
  return numbers;
}

bool HasSeveralSeeds(const Reproduction& reproduction) {
  return std::ranges::any_of(reproduction.claims, [](const Claim& claim) {
    return std::ranges::any_of(claim.parts, [](const ClaimPart& part) {
      return part.rule && part.estimate && !OfOneSeed(part);
    });
  });
}

std::string SeedWarning(const Reproduction& reproduction) {
  const std::vector<int> claims = ClaimsOfOneSeed(reproduction);
  if (claims.empty()) return "";
  const std::string start = HasSeveralSeeds(reproduction)
                                ? absl::StrCat("Some effects were measured with one seed (claims ",
                                               absl::StrJoin(claims, ", "), "). Their intervals")
                                : "All effects were measured with one seed. Their intervals";
  return absl::StrCat(
      "<p class=\"warning\">", start,
      " do not include the variation between seeds. Losses are therefore judged with intervals "
      "that are widened by an allowance (\xC2\xB1). Effects with one number per run cannot be "
      "judged without a second seed and are inconclusive.</p>\n");
}

}  // namespace

std::string VerdictsSection(const Reproduction& reproduction) {
  std::string rows;
  for (const Claim& claim : reproduction.claims) rows += ClaimRow(claim);
  if (rows.empty()) rows = "<p>There are no claims.</p>\n";
  return Section("Verdicts",
                 absl::StrCat(reproduction.experiment->introduction, " Brackets contain the ",
                              ConfidenceText(reproduction),
                              " interval. A claim is shown if all its judged effects are shown."),
                 absl::StrCat(SeedWarning(reproduction), Counts(reproduction), rows), "verdicts");
}

}  // namespace braid
