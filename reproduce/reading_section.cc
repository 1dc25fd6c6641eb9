#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "report/html_page.h"
#include "reproduce/page_sections.h"

namespace braid {
namespace {

constexpr char kRule[] =
    "<p><strong>Verdicts.</strong> An effect that is claimed to be positive is shown when its "
    "whole "
    "interval is above 0, and not shown when the interval is below the margin, so that no effect "
    "worth having is left. One that is claimed to be equivalent, or not inferior, is shown when "
    "its "
    "interval is within, or above the lower end of, the margin, and not shown when it is wholly "
    "outside, or below. \xE2\x80\x9CNot shown\xE2\x80\x9D goes first; all else is inconclusive. A "
    "claim is "
    "shown when all its judged effects are, and not shown when one is not. With one seed, "
    "intervals "
    "of losses are widened before they are judged (\xC2\xB1, dotted in the plots, of told losses "
    "as well).</p>\n";

constexpr char kLimits[] =
    "<p><strong>Limits.</strong> The models are hundreds of times smaller than those of the paper "
    "and see tens of thousands of times less text; its numbers are context, not targets. The "
    "comparison is at equal tokens and equal active size, not at equal work. All arms have the "
    "learning rate that suits the dense and the MoE model. Intervals are not corrected for the "
    "number of claims, say nothing about other corpora, and with few seeds are wide.</p>\n"
    "<p>The whole protocol, written before any run, stands in <code>docs/reproduction.md</code>; "
    "every number of this page, and more digits of it, in <code>reproduction.json</code>.</p>\n";

}  // namespace

std::string ConfidenceText(const Reproduction& reproduction) {
  return absl::StrFormat("%.4g\xC2\xA0%%", 100 * reproduction.confidence);
}

std::string ReadingSection(const Reproduction& reproduction) {
  const std::string intervals = absl::StrCat(
      "<p><strong>Numbers</strong> are of three kinds. Held-out losses: nats per token on text "
      "that "
      "no model has trained on. Training losses: nats per token of the batches of the run itself, "
      "each before the step that learns from it. Both are without the first segment of each "
      "sequence, which routes on itself, unless a name says so. Numbers of which a run has one: "
      "shares of experts or tokens, and divergences of routing in nats. Every effect compares "
      "models "
      "on the same windows, or at the same steps, within a seed; shares that are told are no "
      "differences and stand in tables alone.</p>\n<p><strong>Intervals</strong> (",
      ConfidenceText(reproduction),
      ") hold two errors: that of the text, by a bootstrap over blocks of held-out windows or of "
      "training steps that all arms share, and that of the seeds, by Student\xE2\x80\x99s t. "
      "Numbers of which a "
      "run has one have the second alone.</p>\n");
  return Section("How to read it", "What the numbers mean, and what they cannot say.",
                 absl::StrCat("<div class=\"reading\">\n", intervals, kRule, kLimits, "</div>\n"),
                 "reading");
}

}  // namespace braid
