// The metrics of a run as a table of at most 80 columns.
#ifndef BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_

#include <ostream>

#include "braid/v1/report.pb.h"

namespace braid {

// Prints one row per series: the number of steps that have it, its last value, and its finite
// minimum and maximum. Series of the mean weights of experts are only counted.
void PrintMetricsSummary(const v1::MetricsSummary& summary, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_METRICS_TABLE_H_
