// GenerationService as plain calls.
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

class GenerationClient {
 public:
  explicit GenerationClient(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  // Ends the call when `on_event` returns false, and soon after `given_up` (from another thread)
  // returns true: Cancelled.
  absl::Status Generate(const v1::GenerateRequest& request,
                        const std::function<bool(const v1::GenerateEvent&)>& on_event,
                        std::function<bool()> given_up = nullptr);

  absl::StatusOr<v1::DescribeServingResponse> DescribeServing();

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_GENERATION_CLIENT_H_
