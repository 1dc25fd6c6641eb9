#include "trainer/analysis/routing_page.h"

#include "absl/strings/str_cat.h"
#include "trainer/analysis/routing_sections.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_style.h"

namespace braid {

std::string RenderRoutingPage(const v1::RoutingAnalysis& analysis, const std::string& title) {
  const std::string heading = absl::StrCat("Routing of ", EscapeHtml(title));
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      heading, "</title>\n<style>\n", kReportStyle, kRoutingStyle,
      "</style>\n</head>\n<body>\n<main>\n<h1>", heading, "</h1>\n");
  for (const auto section : {RoutingOverview, DomainHeatMaps, DivergenceByLayer, EntropyByDomain,
                             ActiveShares, UtilizationCurves, SimilarityMatrices, ExcitingTexts}) {
    page += section(analysis);
  }
  return absl::StrCat(page, "</main>\n</body>\n</html>\n");
}

}  // namespace braid
