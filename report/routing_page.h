// The page of `braid analyze routing`: one HTML file with inline SVG and CSS that needs neither a
// network nor scripts, in light and dark.
#ifndef BRAID_REPORT_ROUTING_PAGE_H_
#define BRAID_REPORT_ROUTING_PAGE_H_

#include <string>

namespace braid::v1 {
class RoutingAnalysis;
}  // namespace braid::v1

namespace braid {

// Returns the page. A pure function. `title` is the name of the model in plain text. Sections
// without data are left out.
std::string RenderRoutingPage(const v1::RoutingAnalysis& analysis, const std::string& title);

}  // namespace braid

#endif  // BRAID_REPORT_ROUTING_PAGE_H_
