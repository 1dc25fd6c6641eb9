#include "server/prometheus_exporter.h"

#include <dlfcn.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "rpc/generation_client.h"
#include "rpc/grpc_credentials.h"
#include "rpc/pipeline_client.h"
#include "rpc/training_client.h"
#include "server/listening_sockets.h"
#include "server/prometheus_call_metrics.h"
#include "server/prometheus_families.h"

// Replaces glibc's function for all libraries of the program, to enlarge the stacks of civetweb,
// the exposer's web server. It asks for 100 KiB per thread, from which glibc takes the thread-local
// variables of all libraries: 60 KiB for OpenBLAS alone. The rest is too small for its pages of
// errors, so a request for any other path than /metrics would crash the program.
extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) noexcept {
  constexpr size_t kMinBytes = size_t{8} << 20;  // the usual default; only used pages need memory
  using SetStackSize = int (*)(pthread_attr_t*, size_t);
  static const auto original =
      reinterpret_cast<SetStackSize>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return original(attributes, std::max(bytes, kMinBytes));
}

namespace braid {
namespace {

double UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Asks the services for their state at every scrape. A service that is not served or does not
// answer has no metrics.
class ServiceMetrics : public prometheus::Collectable {
 public:
  ServiceMetrics(std::shared_ptr<grpc::Channel> channel, std::function<ServerFigures()> figures)
      : pipeline_(channel),
        training_(channel),
        generation_(std::move(channel)),
        figures_(std::move(figures)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    const double now = UnixSeconds();
    if (const auto jobs = pipeline_.ListJobs(); jobs.ok()) families = JobFamilies(*jobs, now);
    if (const auto runs = training_.ListRuns(); runs.ok()) {
      for (auto& family : RunFamilies(*runs, now)) families.push_back(std::move(family));
    }
    if (const auto serving = generation_.DescribeServing(); serving.ok()) {
      for (auto& family : ServingFamilies(*serving)) families.push_back(std::move(family));
    }
    if (figures_) {
      for (auto& family : ServerFamilies(figures_())) families.push_back(std::move(family));
    }
    return families;
  }

 private:
  // Thread-safe; mutable because Collect() is const and their calls are not.
  mutable PipelineClient pipeline_;
  mutable TrainingClient training_;
  mutable GenerationClient generation_;
  const std::function<ServerFigures()> figures_;
};

// The exposer's own message does not say why the address cannot be bound; binding it again does.
absl::Status CannotServe(const std::string& address, const std::string& message) {
  const absl::Status status = ListeningSockets::Open(address).status();
  if (status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("--metrics: cannot serve at ", address, ": ", message));
  }
  return absl::Status(status.code(), absl::StrCat("--metrics: ", status.message()));
}

}  // namespace

absl::Status CheckMetricsAddress(const std::string& address, bool insecure) {
  RETURN_IF_ERROR(CheckHostPort("--metrics", address, /*min_port=*/0));
  if (insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics: ", address,
                   " is not a loopback address, and /metrics has no TLS; serve 127.0.0.1 behind a "
                   "proxy, or pass --insecure"));
}

struct MetricsExporter::Server {
  // The exposer has weak references only. It is destroyed first, and its threads with it.
  std::shared_ptr<ServiceMetrics> metrics;
  std::shared_ptr<CallMetrics> calls;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsExporter::MetricsExporter(std::unique_ptr<Server> server) : server_(std::move(server)) {}
MetricsExporter::~MetricsExporter() = default;

int MetricsExporter::port() const { return server_->exposer->GetListeningPorts().front(); }

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(
    const std::string& address, bool insecure, std::shared_ptr<grpc::Channel> channel,
    std::shared_ptr<CallMetrics> calls, std::function<ServerFigures()> figures) {
  RETURN_IF_ERROR(CheckMetricsAddress(address, insecure));
  auto server = std::make_unique<Server>();
  server->metrics = std::make_shared<ServiceMetrics>(std::move(channel), std::move(figures));
  try {
    // Each connection holds a thread until its request is complete or out of time. By default two
    // of them, idle for 30 seconds, keep Prometheus from scraping.
    server->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", "8", "request_timeout_ms", "2000"});
  } catch (const std::exception& error) {
    return CannotServe(address, error.what());
  }
  server->exposer->RegisterCollectable(server->metrics);
  server->calls = std::move(calls);
  if (server->calls != nullptr) server->exposer->RegisterCollectable(server->calls);
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(server)));
}

}  // namespace braid
