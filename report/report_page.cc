#include "report/report_page.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "report/report_sections.h"

namespace braid {
namespace {

// The sections in order; the id is that of the <section> element.
struct PageSection {
  const char* id;
  const char* name;
  std::string (*render)(std::span<const ReportRun> runs);
};
constexpr std::array<PageSection, 13> kSections = {
    {{"runs", "Runs", RunTableSection},
     {"loss", "Loss", LossSection},
     {"gain", "Gain", GainSection},
     {"perplexity", "Perplexity", PerplexitySection},
     {"tasks", "Tasks", TasksSection},
     {"utilization", "Experts", UtilizationSection},
     {"routing", "Routing", RoutingSection},
     {"mixing", "Layers", MixingSection},
     {"speed", "Speed", SpeedSection},
     {"life", "Timeline", LifeSection},
     {"order", "Order", OrderingSection},
     {"sample", "Sample", SampleSection},
     {"configuration", "Configuration", ConfigurationSection}}};

std::string TitleOf(std::span<const ReportRun> runs) {
  if (runs.size() == 1) return absl::StrCat("Report on ", EscapeHtml(runs[0].title));
  return absl::StrCat("Report on ", runs.size(), " runs");
}

constexpr char kFootnote[] =
    "<p id=\"first-segment\"><sup>1</sup> The first segment of a sequence has no segment "
    "before it and is routed on its own mean, which includes tokens that are yet to be predicted, "
    "so its loss is too low. The main numbers therefore exclude the first segment, also for dense "
    "models; a sequence that is a single segment counts fully. Perplexity is exp(loss), with the "
    "loss in nats per token.</p>\n";

// Returns check boxes that show and hide a run in all figures, by CSS alone.
std::string RunSwitches(std::span<const ReportRun> runs) {
  if (runs.size() < 2) return "";
  std::string out = "<fieldset class=\"switches\"><legend>Runs shown in the figures</legend>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    absl::StrAppend(&out, "<label><input type=\"checkbox\" checked=\"checked\" id=\"show-",
                    RunClass(i), "\"/>", RunLabel(runs, i), "</label>\n");
  }
  return out + "</fieldset>\n";
}

std::string SwitchStyle(std::span<const ReportRun> runs) {
  std::string out;
  for (size_t i = 0; runs.size() > 1 && i < runs.size(); ++i) {
    absl::StrAppend(&out, "main:has(#show-", RunClass(i), ":not(:checked)) .", RunClass(i),
                    " { display: none; }\n");
  }
  return out;
}

std::string LeftOutList(std::span<const ReportRun> runs) {
  std::string items;
  for (const std::string& cause : LeftOut(runs)) {
    absl::StrAppend(&items, "<li>", EscapeHtml(cause), "</li>\n");
  }
  if (items.empty()) return "";
  return absl::StrCat("<p>Not on this page:</p>\n<ul>\n", items, "</ul>\n");
}

}  // namespace

std::vector<std::string> LeftOut(std::span<const ReportRun> runs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> causes;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& cause : runs[i].left_out) {
      auto found = std::find_if(causes.begin(), causes.end(),
                                [&](const auto& known) { return known.first == cause; });
      if (found == causes.end()) found = causes.insert(causes.end(), {cause, {}});
      found->second.push_back(RunName(runs, i));
    }
  }
  std::vector<std::string> lines;
  for (const auto& [cause, names] : causes) {
    lines.push_back(absl::StrCat(
        cause, " (",
        names.size() == runs.size() && runs.size() > 1 ? "all runs" : absl::StrJoin(names, ", "),
        ")"));
  }
  return lines;
}

std::string RenderReport(std::span<const ReportRun> runs) {
  std::vector<SectionLink> links;
  std::string sections;
  for (const PageSection& section : kSections) {
    const std::string html = runs.empty() ? "" : section.render(runs);
    if (html.empty()) continue;
    sections += html;
    links.push_back({section.id, section.name});
  }
  const std::string contents =
      runs.empty() ? "<p>There are no runs to report on.</p>\n" : RenderLinks(links);
  return RenderHtmlPage({.title = TitleOf(runs),
                         .style = SwitchStyle(runs),
                         .body = absl::StrCat(contents, RunSwitches(runs), sections, "<footer>\n",
                                              kFootnote, LeftOutList(runs), "</footer>\n")});
}

}  // namespace braid
