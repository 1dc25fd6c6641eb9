#include "retrieval/grpc_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/grpc_keepalive.h"

namespace braid {
namespace {

struct ProcessIdentity {
  std::mutex mutex;
  RetrievalIdentity identity;  // guarded by mutex
};

ProcessIdentity& Shared() {
  static auto* const shared = new ProcessIdentity;
  return *shared;
}

RetrievalIdentity OwnIdentity() {
  const std::lock_guard lock(Shared().mutex);
  return Shared().identity;
}

}  // namespace

void SetRetrievalIdentity(RetrievalIdentity identity) {
  const std::lock_guard lock(Shared().mutex);
  Shared().identity = std::move(identity);
}

std::shared_ptr<grpc::Channel> OpenRetrievalChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  // Reconnects to a restarted server within seconds instead of minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A restarted server may have another address; gRPC would resolve it every 30 s only.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  // Uses a separate connection, not one shared with other clients of the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Detects a server that is gone during a long call.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  const RetrievalIdentity own = OwnIdentity();
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      "dns:///" + address, own.credentials ? own.credentials : grpc::InsecureChannelCredentials(),
      arguments,
      own.call_identity ? own.call_identity(address) : RetrievalIdentity::Interceptors());
}

absl::Status ExplainRefusal(const absl::Status& status) {
  if (!absl::IsUnauthenticated(status) && !absl::IsPermissionDenied(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(),
                                   "; jobs send the token of braidd --services-token-file, or of "
                                   "braid --token-file, which that server must accept"));
}

}  // namespace braid
