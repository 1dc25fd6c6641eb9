// The channel a `braid` command talks through: to a `braidd`, or to the same
// services started inside this process.
#ifndef BRAID_CLIENT_GRPC_CONNECTION_H_
#define BRAID_CLIENT_GRPC_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/grpc_host.h"

namespace braid {

struct ConnectionOptions {
  std::filesystem::path home;
  // host:port of a braidd; empty starts the services in this process.
  std::string server;
  TlsFiles tls;
  bool insecure = false;
  // File with the token of a remote server; without one, what jobs in this process show to
  // embedding and neighbour servers. Default: $BRAID_TOKEN, and over TLS ~/.braid/token.
  std::filesystem::path token_file;
  // Of launches by the services in this process.
  std::string mpirun = "mpirun";
  std::string remote_agent;
  // Of generation by the services in this process.
  Serving serving = {};
};

class Connection {
 public:
  // An embedded server runs `services`, and with `run_jobs` works on queued
  // corpus jobs. Errors: InvalidArgument for a malformed address and for a token that would cross a
  // network in the clear, FailedPrecondition for a token file that others may read, Unavailable
  // when nothing answers there within a few seconds.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const ConnectionOptions& options,
                                                          std::set<ServiceName> services,
                                                          bool run_jobs);
  ~Connection();

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  bool embedded() const { return host_ != nullptr; }

 private:
  Connection() = default;

  std::unique_ptr<ServiceHost> host_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_GRPC_CONNECTION_H_
