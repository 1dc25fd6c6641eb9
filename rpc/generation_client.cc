#include "rpc/generation_client.h"

#include "braid/v1/generation.grpc.pb.h"
#include "rpc/grpc_call.h"

namespace braid {

absl::Status GenerationClient::Generate(
    const v1::GenerateRequest& request,
    const std::function<bool(const v1::GenerateEvent&)>& on_event, std::function<bool()> given_up) {
  return ReadStream<v1::GenerateEvent>(*v1::GenerationService::NewStub(channel_),
                                       &v1::GenerationService::Stub::Generate, request, on_event,
                                       std::move(given_up));
}

absl::StatusOr<v1::DescribeServingResponse> GenerationClient::DescribeServing() {
  return Call<v1::DescribeServingResponse>(*v1::GenerationService::NewStub(channel_),
                                           &v1::GenerationService::Stub::DescribeServing,
                                           v1::DescribeServingRequest());
}

}  // namespace braid
