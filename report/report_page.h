// The report page, which compares runs: one HTML file with inline SVG and CSS that needs neither a
// network nor scripts, in light and dark.
#ifndef BRAID_REPORT_REPORT_PAGE_H_
#define BRAID_REPORT_REPORT_PAGE_H_

#include <span>
#include <string>
#include <vector>

#include "report/report_run.h"

namespace braid {

// Returns the page. A pure function. Sections without data in any run are left out; non-finite
// values are left out of plots and shown as a dash in tables.
std::string RenderReport(std::span<const ReportRun> runs);

// Returns what the page lacks and why, once per cause with the runs concerned, as plain text:
// "task scores: no tasks/result.json (dense, moe)".
std::vector<std::string> LeftOut(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_PAGE_H_
