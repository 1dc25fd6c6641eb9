#include "server/prometheus_call_metrics.h"

#include "server/access/access_policy.h"

namespace braid {
namespace {

const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.005, 0.02, 0.1, 0.5,
                                                          2,     10,    60,   600};

std::string MethodLabel(const std::string& method) {
  const MethodPolicy* const policy = FindPolicy(method);
  return policy == nullptr ? "unknown" : std::string(policy->method);
}

}  // namespace

CallMetrics::CallMetrics()
    : calls_(prometheus::BuildCounter()
                 .Name("braid_server_calls_total")
                 .Help("Calls that have ended, by method and status code")
                 .Register(registry_)),
      seconds_(prometheus::BuildHistogram()
                   .Name("braid_server_call_seconds")
                   .Help("Duration of admitted calls in seconds")
                   .Register(registry_)),
      in_progress_(prometheus::BuildGauge()
                       .Name("braid_server_calls_in_progress")
                       .Help("Calls in progress, including watches")
                       .Register(registry_)),
      refusals_(prometheus::BuildCounter()
                    .Name("braid_server_refusals_total")
                    .Help("Calls refused because of their caller, by reason")
                    .Register(registry_)) {}

void CallMetrics::OnStart(const std::string& method) {
  // Add() returns the existing metric when the labels are known.
  in_progress_.Add({{"method", MethodLabel(method)}}).Increment();
}

void CallMetrics::OnEnd(const CallRecord& record, bool started) {
  const std::string method = MethodLabel(record.method);
  calls_.Add({{"method", method}, {"code", absl::StatusCodeToString(record.code)}}).Increment();
  if (record.refusal != Refusal::kNone) {
    refusals_.Add({{"reason", std::string(RefusalName(record.refusal))}}).Increment();
  }
  if (!started) return;
  in_progress_.Add({{"method", method}}).Decrement();
  seconds_.Add({{"method", method}}, kSeconds).Observe(record.seconds);
}

std::vector<prometheus::MetricFamily> CallMetrics::Collect() const { return registry_.Collect(); }

}  // namespace braid
