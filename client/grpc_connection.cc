#include "client/grpc_connection.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/status_macros.h"
#include "rpc/client_token.h"
#include "rpc/connection_error.h"
#include "rpc/executable_path.h"
#include "rpc/grpc_call_identity.h"
#include "rpc/grpc_credentials.h"
#include "rpc/grpc_keepalive.h"

namespace braid {
namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(5);

constexpr int kDiagnosisSeconds = 5;

// Returns why there is no connection.
absl::Status NoAnswer(const ConnectionOptions& options) {
  RETURN_IF_ERROR(DiagnoseConnection(options.server, options.tls, kDiagnosisSeconds));
  return absl::UnavailableError(absl::StrCat(
      "no braidd answers at ", options.server, ": the server accepts connections, but not calls; ",
      "check that a braidd listens there and is not stopped",
      options.tls.any() ? "" : "; if it uses TLS, add --tls-ca, --tls-certificate and --tls-key"));
}

absl::StatusOr<std::string> FindToken(const ConnectionOptions& options) {
  const bool tls = options.tls.any();
  const std::filesystem::path own = tls ? DefaultHome() / "token" : std::filesystem::path();
  ASSIGN_OR_RETURN(std::string token, ReadClientToken(options.token_file, own));
  // The services in this process send it over TLS or to this machine only (IdentifyJobs).
  if (options.server.empty()) return token;
  if (token.empty() || tls || IsLoopback(options.server)) return token;
  return absl::InvalidArgumentError(
      absl::StrCat("the token would be sent to ", options.server,
                   " without encryption; connect with --tls-ca, --tls-certificate and --tls-key"));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const ConnectionOptions& options) {
  RETURN_IF_ERROR(CheckHostPort("--server", options.server));
  ASSIGN_OR_RETURN(auto credentials,
                   MakeChannelCredentials(options.server, options.tls, options.insecure));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Detects a server that disappeared without closing the connection: a watch may be silent for
  // hours.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Ignores $http_proxy, which does not apply to braidd.
  if (IsLoopback(options.server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  ASSIGN_OR_RETURN(std::string token, FindToken(options));
  auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
      options.server, credentials, arguments, CallIdentity(std::move(token), options.server));
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) {
    return NoAnswer(options);
  }
  return channel;
}

}  // namespace

namespace {

// A server launches runs with its own programs.
absl::Status CheckForServer(const ConnectionOptions& options) {
  const bool mpirun = options.mpirun != ConnectionOptions().mpirun;
  if (!mpirun && options.remote_agent.empty()) return absl::OkStatus();
  const std::string flag = mpirun ? "--mpirun" : "--remote-agent";
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": cannot be combined with --server ", options.server,
                   ", which launches runs with its own programs; leave ", flag,
                   " out, or start braidd with it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectionOptions& options,
                                                             std::set<ServiceName> services,
                                                             bool run_jobs) {
  std::unique_ptr<Connection> connection(new Connection);
  if (options.server.empty() && options.insecure) {
    return absl::InvalidArgumentError(
        "--insecure: needs --server, to which it permits a connection without TLS");
  }
  if (!options.server.empty()) {
    RETURN_IF_ERROR(CheckForServer(options));
    ASSIGN_OR_RETURN(connection->channel_, Dial(options));
    return connection;
  }
  HostOptions host;
  host.home = options.home;
  host.state = options.state;
  host.services = std::move(services);
  host.run_jobs = run_jobs;
  host.tls = options.tls;
  if (host.services.contains(ServiceName::kPipeline)) {
    ASSIGN_OR_RETURN(host.services_token, FindToken(options));
  }
  host.mpirun = options.mpirun;
  host.remote_agent = options.remote_agent;
  host.serving = options.serving;
  ASSIGN_OR_RETURN(connection->host_, ServiceHost::Start(host));
  connection->channel_ = connection->host_->InProcessChannel();
  return connection;
}

Connection::~Connection() {
  // The in-process channel must not outlive its server.
  channel_.reset();
}

}  // namespace braid
