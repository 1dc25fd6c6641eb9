#include "rpc/health_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "rpc/grpc_status.h"

namespace braid {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
constexpr std::chrono::seconds kTimeout(5);
// HealthCheckResponse {status: SERVING}: field 1, varint 1.
constexpr char kServing[] = "\x08\x01";

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  (void)buffer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

// Debian ships no generated code of the protocol, so its two small messages are encoded by hand.
absl::Status HealthClient::Check() {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  const grpc::Slice empty("");  // HealthCheckRequest {}: the server as a whole
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> answer;
  stub.UnaryCall(&context, kMethod, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) { answer.set_value(std::move(status)); });
  RETURN_IF_ERROR(FromGrpc(answer.get_future().get()));
  if (BytesOf(response) == kServing) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "health check: got a status other than SERVING; the server may be shutting down");
}

}  // namespace braid
