// The result page of `braid reproduce`: one HTML file with inline SVG and CSS that needs neither a
// network nor scripts, in light and dark, for wide and narrow screens and for paper.
#ifndef BRAID_REPRODUCE_REPRODUCTION_PAGE_H_
#define BRAID_REPRODUCE_REPRODUCTION_PAGE_H_

#include <string>

#include "reproduce/reproduction_report.h"

namespace braid {

// Returns the page: verdicts, judged effects, a section for each claim, the setup, and how to read
// it. A pure function. Numbers that are not finite are dashes in tables and left out of plots;
// effects that were not measured have a reason. External text, such as the names of domains, is
// escaped.
std::string RenderReproduction(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_PAGE_H_
