// The numbers behind the report page, for those who plot them themselves.
#ifndef BRAID_REPORT_REPORT_DATA_H_
#define BRAID_REPORT_REPORT_DATA_H_

#include <span>
#include <string>

#include "report/report_run.h"

namespace braid {

// JSON, as docs/report.md describes. Numbers that are not finite are null. Curves hold what the
// page draws; metrics.jsonl has every step.
std::string ReportData(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_REPORT_DATA_H_
