// The page of `braid analyze routing`: one HTML file with inline SVG and CSS,
// readable without network or scripts, light and dark.
#ifndef BRAID_REPORT_ROUTING_PAGE_H_
#define BRAID_REPORT_ROUTING_PAGE_H_

#include <string>

#include "braid/v1/analysis.pb.h"

namespace braid {

// Pure. `title` names the model, plain text. Sections without data are left out.
std::string RenderRoutingPage(const v1::RoutingAnalysis& analysis, const std::string& title);

}  // namespace braid

#endif  // BRAID_REPORT_ROUTING_PAGE_H_
