// A blocking client of GenerationService.
#ifndef BRAID_RPC_GENERATION_CLIENT_H_
#define BRAID_RPC_GENERATION_CLIENT_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"

namespace grpc {
class Channel;
}

namespace braid {

// Thread-safe. Calls return the errors of the service and of the connection.
class GenerationClient {
 public:
  explicit GenerationClient(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  // Calls `on_event` for every event; stops when it returns false. Returns CANCELLED soon after
  // `given_up`, which is called from another thread, returns true.
  absl::Status Generate(const v1::GenerateRequest& request,
                        const std::function<bool(const v1::GenerateEvent&)>& on_event,
                        std::function<bool()> given_up = nullptr);

  absl::StatusOr<v1::DescribeServingResponse> DescribeServing();

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_GENERATION_CLIENT_H_
