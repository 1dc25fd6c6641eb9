#include "report/loss_findings.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/run_curves.h"

namespace braid {
namespace {

// Sentences that are shown before the rest is collapsed.
constexpr size_t kMaxUnfolded = 4;

std::string Strong(const std::string& text) { return absl::StrCat("<strong>", text, "</strong>"); }

std::vector<std::string> Divergences(std::span<const ReportRun> runs) {
  std::vector<std::string> items;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunOutcome run = OutcomeOf(runs, i);
    if (!run.diverged_at) continue;
    items.push_back(absl::StrCat("<li>", Strong(EscapeHtml(run.name)), " diverged at step ",
                                 *run.diverged_at,
                                 ": its loss is not finite from there on.</li>\n"));
  }
  return items;
}

std::string DifferenceText(const std::string& base, const LossComparison& comparison) {
  const std::string tokens =
      absl::StrCat(" at equal tokens (", FormatCount(comparison.common_tokens), ")");
  if (!comparison.IsClear()) {
    // A single step has no standard error.
    const bool known = std::isfinite(comparison.standard_error);
    return absl::StrCat(" and ", base,
                        known ? " do not differ beyond the noise"
                              : " have too few steps to tell a difference from noise",
                        tokens, ": ", WithError(comparison.difference, comparison.standard_error),
                        " nats per token");
  }
  const double size = std::abs(comparison.difference);
  return absl::StrCat(
      " is ",
      Strong(absl::StrCat(FormatFixed(size, 3), " \xC2\xB1 ",
                          FormatFixed(comparison.standard_error, 3), " nats per token ",
                          comparison.difference > 0 ? "below" : "above")),
      " ", base, tokens);
}

// Returns the end of the sentence, from "; it" on: when the other run reaches the final loss of the
// base.
std::string ReachedText(const std::string& base, const RunOutcome& other,
                        const LossComparison& comparison) {
  if (!comparison.IsClear()) return ".";
  const std::string goal = absl::StrCat("the final loss of ", base);
  if (comparison.share_of_tokens) {
    return absl::StrCat("; it reaches ", goal, " at ",
                        Strong(FormatFixed(100 * *comparison.share_of_tokens, 0) + "\xC2\xA0%"),
                        " of its tokens.");
  }
  if (!other.in_progress) return absl::StrCat("; it does not reach ", goal, ".");
  return absl::StrCat("; it has not yet reached ", goal, " in ", FormatCount(other.tokens),
                      " tokens.");
}

// Returns a sentence on the settings that differ besides the experts; "" if there are none.
std::string SettingsText(const v1::RunSpec& base, const v1::RunSpec& other) {
  const std::vector<std::string> fields = DifferingSettings(base, other);
  if (fields.empty()) return "";
  return absl::StrCat(" They differ in ", EscapeHtml(absl::StrJoin(fields, ", ")), ".");
}

}  // namespace

RunOutcome OutcomeOf(std::span<const ReportRun> runs, size_t run) {
  const std::vector<v1::StepMetrics>& metrics = runs[run].metrics;
  RunOutcome outcome{RunName(runs, run), 0};
  if (metrics.empty()) return outcome;
  outcome.tokens = static_cast<double>(metrics.back().num_tokens());
  const v1::RunState state = runs[run].life.state;
  // A run with early stopping succeeds before its last step.
  outcome.in_progress = metrics.back().step() < runs[run].spec.num_steps() &&
                        state != v1::RUN_FAILED && state != v1::RUN_SUCCEEDED;
  for (size_t i = metrics.size(); i-- > 0 && !std::isfinite(metrics[i].loss());) {
    // A batch without tokens has no loss, whatever the weights are.
    const bool has_tokens = i == 0 || metrics[i].num_tokens() > metrics[i - 1].num_tokens();
    if (has_tokens) outcome.diverged_at = metrics[i].step();
  }
  return outcome;
}

std::string LossSentence(const RunOutcome& base, const RunOutcome& other,
                         const LossComparison& comparison) {
  const std::string name = EscapeHtml(base.name);
  return absl::StrCat(Strong(EscapeHtml(other.name)), DifferenceText(name, comparison),
                      ReachedText(name, other, comparison));
}

std::string WithError(double value, double standard_error) {
  const std::string text = FormatSigned(value, 3);
  if (!std::isfinite(value) || !std::isfinite(standard_error)) return text;
  return absl::StrCat(text, " \xC2\xB1 ", FormatFixed(standard_error, 3));
}

std::string LossFindings(std::span<const ReportRun> runs) {
  std::vector<std::string> items = Divergences(runs);
  for (const auto& [i, k] : ComparablePairs(runs)) {
    const RunOutcome base = OutcomeOf(runs, i), other = OutcomeOf(runs, k);
    const auto comparison = CompareLoss(LossCurve(runs[i].metrics), LossCurve(runs[k].metrics));
    // The losses of a diverged run after that point are unknown.
    if (!comparison || base.diverged_at || other.diverged_at) continue;
    items.push_back(absl::StrCat("<li>", LossSentence(base, other, *comparison),
                                 SettingsText(runs[i].spec, runs[k].spec), "</li>\n"));
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
