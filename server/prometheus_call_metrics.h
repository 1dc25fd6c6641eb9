// Prometheus metrics of the calls through the port of a server:
//
//   braid_server_calls_total{method,code}         calls that have ended, including refused ones
//   braid_server_call_seconds{method}             histogram of the durations of admitted calls
//   braid_server_calls_in_progress{method}        watches are those of WatchJob and WatchRun
//   braid_server_refusals_total{reason}           no_token, bad_token, expired_token, role, ...
//
// Methods without a policy are counted as "unknown", so that callers cannot create series.
#ifndef BRAID_SERVER_PROMETHEUS_CALL_METRICS_H_
#define BRAID_SERVER_PROMETHEUS_CALL_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "server/access/call_record.h"

namespace braid {

// Thread-safe.
class CallMetrics final : public CallObserver, public prometheus::Collectable {
 public:
  CallMetrics();

  void OnStart(const std::string& method) override;
  void OnEnd(const CallRecord& record, bool started) override;
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& seconds_;
  prometheus::Family<prometheus::Gauge>& in_progress_;
  prometheus::Family<prometheus::Counter>& refusals_;
};

}  // namespace braid

#endif  // BRAID_SERVER_PROMETHEUS_CALL_METRICS_H_
