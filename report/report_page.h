// A page that compares runs: one HTML file with inline SVG and CSS, readable
// without network or scripts, light and dark.
#ifndef BRAID_REPORT_REPORT_PAGE_H_
#define BRAID_REPORT_REPORT_PAGE_H_

#include <span>
#include <string>
#include <vector>

#include "report/report_run.h"

namespace braid {

// Pure. Sections whose data no run has are left out; non-finite values are left
// out of plots and shown as a dash in tables.
std::string RenderReport(std::span<const ReportRun> runs);

// What the page does not show, and why, each cause once with its runs:
// "task scores: no tasks/result.json (dense, moe)". Plain text.
std::vector<std::string> LeftOut(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_PAGE_H_
