#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_page.h"
#include "reproduce/page_sections.h"

namespace braid {
namespace {

constexpr char kRule[] =
    "<p><strong>Verdicts.</strong> An effect that is claimed to be positive is shown if its whole "
    "interval is above 0. It is not shown if the interval is below the margin, so that no relevant "
    "effect is left. An effect that is claimed to be equivalent is shown if its interval is within "
    "the margin on both sides, and not shown if it is entirely outside. An effect that is claimed "
    "to be not inferior is shown if its interval is above the lower margin, and not shown if it is "
    "below it. If both conditions hold, the verdict is \xE2\x80\x9Cnot shown\xE2\x80\x9D; if "
    "neither holds, it is inconclusive. A claim is shown if all its judged effects are shown, and "
    "not shown if one of them is not shown. With one seed, intervals of losses are widened before "
    "they are judged (\xC2\xB1, dotted in the plots); losses that are not judged are widened as "
    "well.</p>\n";

std::string LimitsHtml(const Experiment& experiment) {
  return absl::StrCat(
      "<p><strong>Limits.</strong> ", experiment.limits,
      " Intervals are not corrected for the number of claims, do not apply to other corpora, and "
      "are wide with few seeds.</p>\n"
      "<p>The complete protocol, written before any run, is in <code>",
      experiment.protocol,
      "</code>; all numbers of this page, with more digits, are in "
      "<code>reproduction.json</code>.</p>\n");
}

}  // namespace

std::string ConfidenceText(const Reproduction& reproduction) {
  return FormatShortPercent(reproduction.confidence);
}

bool LeavesSegmentsOut(const Experiment& experiment) {
  return experiment.claim_settings.segment_length > 1;
}

std::string ReadingSection(const Reproduction& reproduction) {
  const std::string intervals = absl::StrCat(
      "<p><strong>Numbers</strong> are of three kinds. Held-out losses are in nats per token on "
      "text "
      "that no model was trained on. Training losses are in nats per token on the batches of the "
      "run, before the step that trains on them. Both exclude the first ",
      LeavesSegmentsOut(*reproduction.experiment)
          ? "segment of each sequence, which is routed on itself, unless the name of the effect "
            "includes it"
          : "position of each sequence",
      ". The third kind has one number per run: shares of experts or tokens, and divergences of "
      "routing in nats. Every effect compares models on the same windows or at the same steps, "
      "with the same seed. Shares that are not judged are not differences, and appear only in "
      "tables.</p>\n"
      "<p><strong>Intervals</strong> (",
      ConfidenceText(reproduction),
      ") include two sources of error: that of the text, by a bootstrap over blocks of held-out "
      "windows or training steps that all arms share, and that of the seeds, by "
      "Student\xE2\x80\x99s t. Numbers of the third kind have only the second.</p>\n");
  const std::string answers =
      reproduction.experiment->tasks.empty()
          ? ""
          : "<p><strong>Answers.</strong> Losses per answer are the nats of the right answer: of "
            "its "
            "share among the choices, or of the whole reference where the model writes. Effects "
            "are means over tasks, which count alike. Their intervals treat the examples of a task "
            "as the text, and seeds as above; all models are asked the same examples.</p>\n";
  return Section("How to read this page", "The meaning of the numbers and their limits.",
                 absl::StrCat("<div class=\"reading\">\n", intervals, answers, kRule,
                              LimitsHtml(*reproduction.experiment), "</div>\n"),
                 "reading");
}

}  // namespace braid
