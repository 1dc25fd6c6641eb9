// GET /metrics: what the services of this process know, as Prometheus reads it.
#ifndef BRAID_SERVER_PROMETHEUS_EXPORTER_H_
#define BRAID_SERVER_PROMETHEUS_EXPORTER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
}

namespace braid {

class CallMetrics;

// Asks the services anew for every scrape, so it holds no state of its own.
class MetricsExporter {
 public:
  // `address`: HOST:PORT; port 0 picks a free one. `channel`: to the services,
  // until this is destroyed. `calls`: served too, may be null. Errors: INVALID_ARGUMENT for a
  // malformed address, or one beyond loopback without `insecure` (there is no TLS here);
  // UNAVAILABLE when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsExporter>> Start(
      const std::string& address, bool insecure, std::shared_ptr<grpc::Channel> channel,
      std::shared_ptr<CallMetrics> calls);
  ~MetricsExporter();

  int port() const;

 private:
  struct Server;
  explicit MetricsExporter(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
};

}  // namespace braid

#endif  // BRAID_SERVER_PROMETHEUS_EXPORTER_H_
