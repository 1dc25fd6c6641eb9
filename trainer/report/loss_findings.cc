#include "trainer/report/loss_findings.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"

namespace braid {
namespace {

// Sentences that are read before they are a bore.
constexpr size_t kMaxUnfolded = 4;

}  // namespace

std::vector<std::pair<size_t, size_t>> ComparablePairs(std::span<const ReportRun> runs) {
  std::vector<std::pair<size_t, size_t>> pairs = PairRuns(runs);
  if (!pairs.empty() || runs.empty()) return pairs;
  const v1::RunSpec& base = runs[0].spec;
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].spec.dataset_dir() == base.dataset_dir() &&
        runs[i].spec.model().vocab_size() == base.model().vocab_size()) {
      pairs.emplace_back(0, i);
    }
  }
  return pairs;
}

std::string LossSentence(const std::string& base, const std::string& other,
                         const LossComparison& comparison) {
  std::string text = absl::StrCat(
      "<strong>", EscapeHtml(other), "</strong> is <strong>",
      FormatFixed(std::abs(comparison.difference), 3),
      std::isfinite(comparison.standard_error)
          ? absl::StrCat(" \xC2\xB1 ", FormatFixed(comparison.standard_error, 3))
          : "",
      " nats per token ", comparison.difference >= 0 ? "below" : "above", "</strong> ",
      EscapeHtml(base), " at equal tokens (", FormatCount(comparison.common_tokens), ")");
  const std::string goal = absl::StrCat("the final loss of ", EscapeHtml(base));
  if (!comparison.share_of_tokens) return absl::StrCat(text, "; it does not reach ", goal, ".");
  return absl::StrCat(text, "; it reaches ", goal, " at <strong>",
                      FormatFixed(100 * *comparison.share_of_tokens, 0),
                      " %</strong> of its tokens.");
}

std::string LossFindings(std::span<const ReportRun> runs) {
  std::vector<std::string> items;
  for (const auto& [base, other] : ComparablePairs(runs)) {
    const auto comparison =
        CompareLoss(LossCurve(runs[base].metrics), LossCurve(runs[other].metrics));
    if (!comparison) continue;
    items.push_back(absl::StrCat(
        "<li>", LossSentence(RunName(runs, base), RunName(runs, other), *comparison), "</li>\n"));
  }
  const auto list = [](std::span<const std::string> sentences) {
    return absl::StrCat("<ul class=\"findings\">\n", absl::StrJoin(sentences, ""), "</ul>\n");
  };
  if (items.empty()) return "";
  if (items.size() <= kMaxUnfolded + 1) return list(items);
  const auto all = std::span<const std::string>(items);
  return absl::StrCat(list(all.first(kMaxUnfolded)), "<details><summary>",
                      items.size() - kMaxUnfolded, " more comparisons</summary>\n",
                      list(all.subspan(kMaxUnfolded)), "</details>\n");
}

}  // namespace braid
