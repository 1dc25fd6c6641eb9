#include "report/routing_page.h"

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.pb.h"
#include "report/html_page.h"
#include "report/html_text.h"
#include "report/routing_sections.h"

namespace braid {

std::string RenderRoutingPage(const v1::RoutingAnalysis& analysis, const std::string& title) {
  std::string sections;
  for (const auto section :
       {RoutingOverview, DomainHeatMaps, DivergenceByLayer, EntropyByDomain, ActiveShares,
        UtilizationCurves, SimilarityMatrices, TopActivatingTexts}) {
    sections += section(analysis);
  }
  return RenderHtmlPage({.title = absl::StrCat("Routing of ", EscapeHtml(title)),
                         .style = kRoutingStyle,
                         .body = sections});
}

}  // namespace braid
