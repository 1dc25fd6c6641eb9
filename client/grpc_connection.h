// The channel of a `braid` command: to a braidd, or to the same services in this process.
#ifndef BRAID_CLIENT_GRPC_CONNECTION_H_
#define BRAID_CLIENT_GRPC_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/grpc_host.h"

namespace braid {

struct ConnectionOptions {
  std::filesystem::path home;
  // Directory of the lists of jobs and runs (jobs.sqlite, runs.sqlite); empty: `home`.
  std::filesystem::path state;
  // HOST:PORT of a braidd; empty starts the services in this process.
  std::string server;
  TlsFiles tls;
  bool insecure = false;
  // File with the token for a remote server or, without a server, for the embedding and neighbor
  // servers of jobs in this process. Default: $BRAID_TOKEN, and over TLS ~/.braid/token.
  std::filesystem::path token_file;
  // Programs that the services in this process launch runs with.
  std::string mpirun = "mpirun";
  std::string remote_agent;
  // Settings of the generation service in this process.
  Serving serving = {};
};

// A connection, which owns the services in this process.
class Connection {
 public:
  // Connects to options.server or, when that is empty, starts `services` in this process; with
  // `run_jobs`, these also process queued corpus jobs. InvalidArgument for a malformed address and
  // for a token that would be sent over a network without TLS, FailedPrecondition for a token file
  // that other users may read, Unavailable when the server does not answer within a few seconds.
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
