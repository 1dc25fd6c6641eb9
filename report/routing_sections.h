// The sections of the routing page. Each is a pure function from the analysis to HTML that returns
// "" when the analysis lacks its data.
#ifndef BRAID_REPORT_ROUTING_SECTIONS_H_
#define BRAID_REPORT_ROUTING_SECTIONS_H_

#include <string>

namespace braid::v1 {
class RoutingAnalysis;
}  // namespace braid::v1

namespace braid {

// routing_sections.cc
std::string RoutingOverview(const v1::RoutingAnalysis& analysis);
// Returns heat maps as in arXiv 2405.03133, figure 7.
std::string DomainHeatMaps(const v1::RoutingAnalysis& analysis);
std::string DivergenceByLayer(const v1::RoutingAnalysis& analysis);
std::string EntropyByDomain(const v1::RoutingAnalysis& analysis);
std::string ActiveShares(const v1::RoutingAnalysis& analysis);

// expert_sections.cc
// Returns curves as in arXiv 2405.03133, figure 6.
std::string UtilizationCurves(const v1::RoutingAnalysis& analysis);
std::string SimilarityMatrices(const v1::RoutingAnalysis& analysis);
std::string TopActivatingTexts(const v1::RoutingAnalysis& analysis);

// Styles of these sections in addition to report_style.h.
extern const char kRoutingStyle[];

}  // namespace braid

#endif  // BRAID_REPORT_ROUTING_SECTIONS_H_
