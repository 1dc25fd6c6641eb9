#include "trainer/report/report_page.h"

#include "absl/strings/str_cat.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"
#include "trainer/report/report_style.h"

namespace braid {
namespace {

std::string TitleOf(std::span<const ReportRun> runs) {
  if (runs.size() == 1) return absl::StrCat("Report on ", EscapeHtml(runs[0].title));
  return absl::StrCat("Report on ", runs.size(), " runs");
}

constexpr char kFootnote[] =
    "<footer id=\"first-segment\"><p><sup>1</sup> The first segment of a sequence has no segment "
    "before it and routes on its own mean, which holds tokens that are yet to be predicted: there "
    "the experts see a little of the answer. Main numbers therefore leave the first segment out, "
    "for dense models too. Perplexity is exp(loss), loss in nats per token.</p></footer>\n";

}  // namespace

std::string RenderReport(std::span<const ReportRun> runs) {
  const std::string title = TitleOf(runs);
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      title, "</title>\n<style>\n", kReportStyle, "</style>\n</head>\n<body>\n<main>\n<h1>", title,
      "</h1>\n");
  if (runs.empty()) page += "<p>There are no runs to report on.</p>\n";
  for (const auto section :
       {RunTableSection, GainSection, LossSection, PerplexitySection, UtilisationSection,
        RoutingSection, SpeedSection, OrderingSection, SampleSection, ConfigurationSection}) {
    if (!runs.empty()) page += section(runs);
  }
  return absl::StrCat(page, kFootnote, "</main>\n</body>\n</html>\n");
}

}  // namespace braid
