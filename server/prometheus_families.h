// Jobs and runs as Prometheus metrics: the same figures as those of WatchJob and WatchRun, under
// the field names of the .proto files, prefixed with "braid_stage_" and "braid_run_".
//
// Jobs and runs are counted by state. Only those that have not ended, or ended less than
// kRecentSeconds ago, have their own series: a scrape still sees the last figures, and the number
// of series is bounded.
#ifndef BRAID_SERVER_PROMETHEUS_FAMILIES_H_
#define BRAID_SERVER_PROMETHEUS_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <vector>

#include "braid/v1/generation.pb.h"
#include "braid/v1/training.pb.h"
#include "server/connection_acceptor.h"
#include "server/expiries.h"

namespace braid::v1 {
class ListJobsResponse;
}  // namespace braid::v1

namespace braid {

inline constexpr double kRecentSeconds = 600;

// Return the metrics at the time `now` in Unix seconds.
std::vector<prometheus::MetricFamily> JobFamilies(const v1::ListJobsResponse& jobs, double now);
std::vector<prometheus::MetricFamily> RunFamilies(const v1::ListRunsResponse& runs, double now);

// Returns braid_generation_*: requests that wait and run, and counters.
std::vector<prometheus::MetricFamily> ServingFamilies(const v1::DescribeServingResponse& serving);

// The state of the server itself.
struct ServerFigures {
  ConnectionCounts connections;
  // Space on the file system with HOME.
  uint64_t disk_free_bytes = 0;
  uint64_t disk_size_bytes = 0;
  std::vector<Expiry> expiries;
};
std::vector<prometheus::MetricFamily> ServerFamilies(const ServerFigures& figures);

}  // namespace braid

#endif  // BRAID_SERVER_PROMETHEUS_FAMILIES_H_
