// A client of the health service of a braidd (grpc.health.v1.Health).
#ifndef BRAID_RPC_HEALTH_CLIENT_H_
#define BRAID_RPC_HEALTH_CLIENT_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace grpc {
class Channel;
}

namespace braid {

class HealthClient {
 public:
  explicit HealthClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  // Returns OK if all services of the server are SERVING, FAILED_PRECONDITION if they are not, for
  // example while the server shuts down; otherwise the error of the call.
  absl::Status Check();

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_HEALTH_CLIENT_H_
