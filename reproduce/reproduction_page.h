// The page that `braid reproduce` ends with: one HTML file with inline SVG and CSS, readable
// without network or scripts, light and dark, on narrow screens and on paper.
#ifndef BRAID_REPRODUCE_REPRODUCTION_PAGE_H_
#define BRAID_REPRODUCE_REPRODUCTION_PAGE_H_

#include <string>

#include "reproduce/reproduction_report.h"

namespace braid {

// Pure. Verdicts, judged effects, a section a claim, what was run, how to read it. Numbers that
// are not finite are dashes, and left out of plots; what was not measured says why. Text from
// outside, such as names of domains, is escaped.
std::string RenderReproduction(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_PAGE_H_
