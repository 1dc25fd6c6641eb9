// The numbers of the report page as JSON, for other programs.
#ifndef BRAID_REPORT_REPORT_DATA_H_
#define BRAID_REPORT_REPORT_DATA_H_

#include <span>
#include <string>

#include "report/report_run.h"

namespace braid {

// Returns the JSON that docs/report.md describes. Numbers that are not finite are null. Curves have
// the points that the page draws; metrics.jsonl has every step.
std::string ReportData(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_DATA_H_
