// The series of a run as a table of at most 80 columns.
#ifndef BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_

#include <ostream>

#include "braid/v1/analysis.pb.h"

namespace braid {

// A row a series: steps that have it, last value, least and greatest finite one. The mean
// weights of experts are counted, not shown.
void PrintMetricsSummary(const v1::MetricsSummary& summary, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_
