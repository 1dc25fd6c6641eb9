// Serves GET /metrics: the state of the services of this process as Prometheus metrics.
#ifndef BRAID_SERVER_PROMETHEUS_EXPORTER_H_
#define BRAID_SERVER_PROMETHEUS_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
}

namespace braid {

class CallMetrics;
struct ServerFigures;

// Returns INVALID_ARGUMENT for a malformed address, or for one beyond loopback without `insecure`,
// since the exporter has no TLS.
absl::Status CheckMetricsAddress(const std::string& address, bool insecure);

// Queries the services for every scrape, so it holds no state of its own.
class MetricsExporter {
 public:
  // Starts to serve.
  //   address  HOST:PORT; port 0 picks a free one
  //   channel  to the services; used until this object is destroyed
  //   calls    further metrics to serve; may be null
  //   figures  returns the state of the server itself; may be null
  // Errors: those of CheckMetricsAddress and, when the address cannot be bound, those of
  // ListeningSockets::Open.
  static absl::StatusOr<std::unique_ptr<MetricsExporter>> Start(
      const std::string& address, bool insecure, std::shared_ptr<grpc::Channel> channel,
      std::shared_ptr<CallMetrics> calls, std::function<ServerFigures()> figures = nullptr);
  ~MetricsExporter();

  int port() const;

 private:
  struct Server;
  explicit MetricsExporter(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
};

}  // namespace braid

#endif  // BRAID_SERVER_PROMETHEUS_EXPORTER_H_
