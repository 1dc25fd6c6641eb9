#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/reproduce/page/effect_text.h"
#include "cli/reproduce/page/page_sections.h"
#include "cli/reproduce/page/verdict_mark.h"
#include "trainer/report/html_page.h"
#include "trainer/report/html_text.h"

namespace braid {
namespace {

std::string Counts(const Reproduction& reproduction) {
  std::string out = "<p class=\"counts\">";
  for (const Verdict verdict :
       {Verdict::kShown, Verdict::kNotShown, Verdict::kInconclusive, Verdict::kNotMeasured}) {
    const auto count = std::ranges::count(reproduction.claims, verdict, &Claim::verdict);
    absl::StrAppend(&out, VerdictBadge(verdict, absl::StrCat(count, " ", VerdictName(verdict))),
                    "\n");
  }
  return out + "</p>\n";
}

std::string PartText(const ClaimPart& part) {
  if (!part.estimate) return absl::StrCat("not measured: ", EscapeHtml(part.missing));
  const std::string interval = IntervalText(*part.estimate);
  return absl::StrCat("<span class=\"measured\"><strong>", EffectNumber(part.estimate->effect),
                      "</strong> ", interval.empty() ? "" : interval + " ", EscapeHtml(part.unit),
                      interval.empty() ? " (no interval)" : "", "</span>");
}

std::string PartItem(const ClaimPart& part) {
  return absl::StrCat("<li>", VerdictBadge(part.verdict, ""), EscapeHtml(part.name), ": ",
                      PartText(part), "</li>\n");
}

std::string PaperText(const Claim& claim) {
  if (claim.source.empty()) return "Not a claim of the paper.";
  return absl::StrCat("Paper, ", EscapeHtml(claim.source), ": ", EscapeHtml(claim.paper_result),
                      ".");
}

std::string ClaimRow(const Claim& claim) {
  std::string parts;
  for (const ClaimPart& part : claim.parts) {
    if (part.rule) parts += PartItem(part);
  }
  if (parts.empty()) parts = "<li>No effect is judged.</li>\n";
  return absl::StrCat("<div class=\"claim\">\n<h3><a href=\"#", ClaimId(claim), "\">",
                      EscapeHtml(ClaimTitle(claim)), "</a></h3>\n<p class=\"outcome\">",
                      VerdictBadge(claim.verdict), "</p>\n<ul>\n", parts,
                      "</ul>\n<p class=\"paper\">", PaperText(claim), "</p>\n</div>\n");
}

std::string SeedWarning(const Reproduction& reproduction) {
  if (NumSeeds(reproduction) != 1) return "";
  return "<p class=\"warning\">There is one seed. Every interval on this page holds for that seed "
         "alone: how other seeds would differ is not in it. Losses are therefore judged with "
         "intervals that are wider by an allowance, and what a run gives one number of (claims 5 "
         "and 6) cannot be judged.</p>\n";
}

}  // namespace

std::string VerdictsSection(const Reproduction& reproduction) {
  std::string rows;
  for (const Claim& claim : reproduction.claims) rows += ClaimRow(claim);
  if (rows.empty()) rows = "<p>There are no claims.</p>\n";
  return Section("Verdicts",
                 absl::StrCat("Claims of <em>Lory</em> (arXiv 2405.03133v2), and two of our own, "
                              "tested on this corpus. Effects are positive in the direction of the "
                              "claim; in brackets the ",
                              ConfidenceText(reproduction),
                              " interval. A claim is shown when all its effects are."),
                 absl::StrCat(SeedWarning(reproduction), Counts(reproduction), rows), "verdicts");
}

}  // namespace braid
