#include "report/report_sections.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "runs/main_figures.h"

namespace braid {

std::string RunLabel(std::span<const ReportRun> runs, size_t run) {
  return absl::StrCat("<span class=\"run\">", RenderSwatch(static_cast<int>(run)),
                      EscapeHtml(runs[run].title), "</span>");
}

std::string RunName(std::span<const ReportRun> runs, size_t run) {
  const std::string& name = runs[run].spec.name();
  const auto same = std::count_if(
      runs.begin(), runs.end(), [&](const ReportRun& other) { return other.spec.name() == name; });
  return name.empty() || same > 1 ? runs[run].title : name;
}

std::string RunNotes(std::span<const ReportRun> runs, std::string ReportRun::*note) {
  std::string paragraphs;
  for (size_t i = 0; i < runs.size(); ++i) {
    if ((runs[i].*note).empty()) continue;
    absl::StrAppend(&paragraphs, "<p class=\"note\">", EscapeHtml(RunName(runs, i)), ": ",
                    EscapeHtml(runs[i].*note), "</p>\n");
  }
  return paragraphs;
}

std::string SelfRoutingNotes(std::span<const ReportRun> runs) {
  std::string paragraphs;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!RoutesOnItself(runs[i].spec.model())) continue;
    absl::StrAppend(&paragraphs, "<p class=\"note\">", EscapeHtml(RunName(runs, i)),
                    ": each sequence is one segment, which routes on the tokens that it predicts, "
                    "so its losses are too low.</p>\n");
  }
  return paragraphs;
}

double MainPerplexity(const ReportRun& run) {
  return run.evaluation ? MainPerplexity(run.evaluation->total()) : std::nan("");
}

std::string RunClass(size_t run) { return absl::StrCat("run-", run); }

std::string RunDetails(std::span<const ReportRun> runs, size_t run, const std::string& body,
                       bool open) {
  if (body.empty()) return "";
  return absl::StrCat("<details class=\"facet\"", open || runs.size() == 1 ? " open=\"open\"" : "",
                      "><summary><h3>", RunLabel(runs, run), "</h3></summary>\n", body,
                      "</details>\n");
}

std::string WithInterval(double value, double low, double high, int digits) {
  std::string text = FormatFixed(value, digits);
  if (!std::isfinite(value) || !std::isfinite(low) || !std::isfinite(high)) return text;
  return absl::StrCat(text, "<br/><span class=\"interval\">", FormatFixed(low, digits), " to ",
                      FormatFixed(high, digits), "</span>");
}

}  // namespace braid
