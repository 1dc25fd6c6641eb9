#include "server/grpc_host.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/host_port.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "control/analysis_service.h"
#include "control/training_service.h"
#include "pipeline/jobs/pipeline_service.h"
#include "proto/config_text.h"
#include "retrieval/contriever_process.h"
#include "retrieval/embedding_service.h"
#include "retrieval/grpc_channel.h"
#include "retrieval/hashing_embedder.h"
#include "retrieval/neighbor_service.h"
#include "rpc/executable_path.h"
#include "rpc/grpc_call_identity.h"
#include "rpc/grpc_credentials.h"
#include "rpc/grpc_keepalive.h"
#include "server/access/grpc_gate.h"
#include "server/access/request_limits.h"
#include "server/access/request_paths.h"
#include "server/retention/disk_reserve.h"
#include "server/retention/storage_service.h"

namespace braid {
namespace {

constexpr int kMaxRequestBytes = 4 << 20;
constexpr int kMaxMetadataBytes = 8 << 10;
// Memory for messages of all connections; beyond it, gRPC stops reading until some is freed.
constexpr size_t kMaxPortBytes = size_t{2} << 30;
// Threads for calls that block in a handler, which watches do not; further calls are refused with
// RESOURCE_EXHAUSTED.
constexpr int kMaxThreads = 2048;
// Time that calls still in progress after the drain have to end before they are cancelled.
constexpr std::chrono::milliseconds kLastWords{100};

const std::map<std::string, ServiceName>& KnownServices() {
  static const auto* const known = new std::map<std::string, ServiceName>{
      {"pipeline", ServiceName::kPipeline},   {"training", ServiceName::kTraining},
      {"analysis", ServiceName::kAnalysis},   {"generation", ServiceName::kGeneration},
      {"embedding", ServiceName::kEmbedding}, {"neighbors", ServiceName::kNeighbors},
      {"storage", ServiceName::kStorage},
  };
  return *known;
}

ControlOptions ControlOptionsFor(const HostOptions& options) {
  ControlOptions control;
  control.home = options.home;
  control.state = options.state;
  control.trainer_binary = SiblingProgram("braid-trainer");
  control.supervisor_binary = SiblingProgram("braid-supervisor");
  control.mpirun = options.mpirun;
  control.remote_agent = options.remote_agent;
  control.max_runs = options.quotas.runs;
  control.max_ranks = options.quotas.ranks;
  control.max_watches = options.quotas.watches;
  control.max_evaluations = options.quotas.evaluations;
  control.serving.max_models = options.serving.models;
  control.serving.max_active = options.serving.active;
  control.serving.max_waiting = options.serving.queue;
  control.serving.idle = std::chrono::seconds(options.serving.idle_seconds);
  control.serving.num_threads = options.serving.num_threads;
  control.serving.together = options.serving.together;
  return control;
}

absl::StatusOr<std::unique_ptr<Embedder>> MakeEmbedder(const std::string& name) {
  constexpr char kContriever[] = "contriever:";
  if (name == "hashing") return HashingEmbedder::Create(HashingOptions(), std::nullopt);
  if (absl::StartsWith(name, kContriever) && name != kContriever) {
    return ContrieverProcess::Start({.directory = name.substr(sizeof(kContriever) - 1)});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--embedder: got \"", name, "\", expected hashing or contriever:DIRECTORY"));
}

// Sets how jobs of this process identify themselves to embedding and neighbor servers.
void IdentifyJobs(const HostOptions& options, const ReloadedTls* tls) {
  RetrievalIdentity identity;
  if (tls != nullptr) identity.credentials = tls->ChannelCredentials();
  identity.call_identity = [token = options.services_token,
                            tls = options.tls.any()](const std::string& address) {
    // The token is never sent unencrypted over a network; without it the server refuses the call.
    return CallIdentity(tls || IsLoopback(address) ? token : "");
  };
  SetRetrievalIdentity(std::move(identity));
}

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeService(ServiceName name,
                                                           const HostOptions& options) {
  switch (name) {
    case ServiceName::kPipeline: {
      PipelineOptions pipeline;
      pipeline.home = options.home;
      pipeline.state = options.state;
      pipeline.num_workers = options.run_jobs ? 1 : 0;
      // The embedded service has a user who waits at the terminal.
      if (options.listen.empty()) pipeline.retry_seconds = 1;
      pipeline.max_jobs = options.quotas.jobs;
      pipeline.max_watches = options.quotas.watches;
      pipeline.max_descriptions = options.quotas.descriptions;
      return MakePipelineService(pipeline);
    }
    case ServiceName::kTraining:
      return MakeTrainingService(ControlOptionsFor(options));
    case ServiceName::kAnalysis:
      return MakeAnalysisService(ControlOptionsFor(options));
    case ServiceName::kGeneration:
      return MakeGenerationService(ControlOptionsFor(options));
    case ServiceName::kStorage:
      return MakeStorageService({.home = options.home,
                                 .state = options.state,
                                 .log = [observers = options.observers](const std::string& what) {
                                   for (const auto& observer : observers) observer->OnNotice(what);
                                 }});
    case ServiceName::kEmbedding: {
      ASSIGN_OR_RETURN(std::unique_ptr<Embedder> embedder, MakeEmbedder(options.embedder));
      return MakeEmbeddingService(std::move(embedder));
    }
    case ServiceName::kNeighbors:
      return MakeNeighborService(options.home / "neighbors");
  }
  return absl::InternalError("unknown service");
}

// Returns the name of a service in health checks.
const char* FullName(ServiceName name) {
  switch (name) {
    case ServiceName::kPipeline:
      return "braid.v1.PipelineService";
    case ServiceName::kTraining:
      return "braid.v1.TrainingService";
    case ServiceName::kAnalysis:
      return "braid.v1.AnalysisService";
    case ServiceName::kGeneration:
      return "braid.v1.GenerationService";
    case ServiceName::kStorage:
      return "braid.v1.StorageService";
    case ServiceName::kEmbedding:
      return "braid.v1.EmbeddingService";
    case ServiceName::kNeighbors:
      return "braid.v1.NeighborService";
  }
  return "";
}

// Removes all services but the gate from the server on the port. Health and reflection are served
// by the server behind the gate like all other services, but linking gRPC's implementations
// registers them with every server of the process.
class OnlyTheGate final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    no_health_.UpdateArguments(arguments);
  }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }

 private:
  grpc::HealthCheckServiceServerBuilderOption no_health_{nullptr};
};

absl::Status CheckRequest(const google::protobuf::Message& request,
                          const std::function<bool()>& cancelled) {
  // First, because they bound the paths, each of which costs system calls.
  RETURN_IF_ERROR(CheckLimits(request));
  return CheckPaths(request, ClientRoots(), cancelled);
}

// Limits the resources of each connection and message.
void LimitResources(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  SetConnectionLimits(builder);
  grpc::ResourceQuota quota("port");
  quota.Resize(kMaxPortBytes);
  builder->SetResourceQuota(quota);
  // gRPC checks the size of a message before decompression, which may expand it a thousandfold.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

}  // namespace

absl::StatusOr<std::set<ServiceName>> ParseServiceNames(const std::string& list) {
  std::set<ServiceName> services;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(list, ',', absl::SkipWhitespace()))) {
    const auto found = KnownServices().find(name);
    if (found == KnownServices().end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--services: got unknown service \"", name,
          "\", expected some of pipeline, training, analysis, generation, storage, embedding, "
          "neighbors"));
    }
    services.insert(found->second);
  }
  if (services.empty())
    return absl::InvalidArgumentError("--services: got no service, expected at least one");
  return services;
}

ServiceHost::ServiceHost() = default;

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(const HostOptions& given) {
  HostOptions options = given;
  // Paths below the home are stored and returned to clients, which run in other directories.
  options.home = AbsolutePath(given.home.string());
  options.state = AbsolutePath(given.state.string());
  // Jobs and runs name directories in it, and no message with other bytes can be parsed again.
  if (!IsValidUtf8(options.home.native())) {
    return absl::InvalidArgumentError(absl::StrCat("--home: got \"",
                                                   absl::CHexEscape(options.home.native()),
                                                   "\", expected a directory whose path is UTF-8"));
  }
  RETURN_IF_ERROR(MakeDirectories(options.home));
  std::unique_ptr<ServiceHost> host(new ServiceHost);
  // Before the services: a queued job may start at once, and it calls embedding and neighbor
  // servers with the identity that is set here.
  RETURN_IF_ERROR(host->ReadTls(options));
  RETURN_IF_ERROR(host->StartServices(options));
  // After the services, which create the directory of the databases.
  KeepDiskReserve(options.state.empty() ? options.home : options.state);
  if (!options.listen.empty()) RETURN_IF_ERROR(host->OpenPort(options));
  return host;
}

absl::Status ServiceHost::ReadTls(const HostOptions& options) {
  if (options.tls.any()) {
    const auto on_event = [observers = options.observers](const absl::Status& status) {
      for (const auto& observer : observers) {
        if (status.ok()) {
          observer->OnNotice("the TLS files have changed; new connections use them");
        } else {
          observer->OnProblem(
              absl::StrCat("the TLS files have changed, but the earlier ones remain in use: ",
                           std::string(status.message())));
        }
      }
    };
    ASSIGN_OR_RETURN(tls_, ReloadedTls::Open(options.tls, on_event));
  }
  // Only corpus jobs call embedding and neighbor servers.
  if (options.services.contains(ServiceName::kPipeline)) IdentifyJobs(options, tls_.get());
  return absl::OkStatus();
}

absl::Status ServiceHost::StartServices(const HostOptions& options) {
  // Both are settings of the process, which a server takes over when it is built.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  for (const ServiceName name : options.services) {
    ASSIGN_OR_RETURN(auto service, MakeService(name, options));
    builder.RegisterService(service.get());
    services_.push_back(std::move(service));
  }
  // The port limits the messages of clients (LimitResources); calls within the process have no
  // limit.
  builder.SetMaxReceiveMessageSize(-1);
  grpc::ResourceQuota quota("services");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr)
    return absl::InternalError("cannot start the in-process gRPC server of the services");
  for (const ServiceName name : options.services) {
    server_->GetHealthCheckService()->SetServingStatus(FullName(name), true);
  }
  return absl::OkStatus();
}

absl::Status ServiceHost::OpenPort(const HostOptions& options) {
  RETURN_IF_ERROR(CheckHostPort("--listen", options.listen, /*min_port=*/0));
  ASSIGN_OR_RETURN(auto credentials,
                   MakeServerCredentials(options.listen, tls_.get(), options.insecure));
  const bool required = options.require_token || (options.tls.any() && !options.insecure);
  const auto on_problem = [observers = options.observers](const std::string& what) {
    for (const auto& observer : observers) observer->OnProblem(what);
  };
  AcceptorOptions accepting{.limits = DeriveLimits(options.connections, RaiseDescriptorLimit()),
                            .on_problem = on_problem};
  // Connections that arrive before acceptor_ exists wait in the backlog.
  ASSIGN_OR_RETURN(ListeningSockets sockets, ListeningSockets::Open(options.listen));
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  accepting.on_deaf = [on_problem,
                       address = absl::StrCat(host, ":", sockets.port())](const std::string& why) {
    on_problem(absl::StrCat("exiting with code ", kDeafExitCode, ", because no connection reaches ",
                            address, ": ", why));
    // Without an orderly shutdown, which would join the thread that calls this.
    _exit(kDeafExitCode);
  };
  gate_ = std::make_unique<Gate>(GateOptions{.authenticator = std::make_shared<Authenticator>(
                                                 options.home, required, on_problem),
                                             .check = CheckRequest,
                                             .observers = options.observers,
                                             .refusal_delay = options.refusal_delay},
                                 InProcessChannel());
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<OnlyTheGate>());
  builder.RegisterCallbackGenericService(gate_.get());
  // gRPC does not listen itself: version 1.51 drops its socket for good when accept() fails for
  // lack of descriptors, and lets several processes share a port.
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> handshakes =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  LimitResources(&builder);
  port_server_ = builder.BuildAndStart();
  if (port_server_ == nullptr) {
    return absl::InvalidArgumentError(
        "cannot start the server with these TLS files; check that the key belongs to the "
        "certificate");
  }
  accepting.on_connection = [handshakes](int listener, int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = descriptor;
    handshakes->HandleNewConnection(&connection);
  };
  port_ = sockets.port();
  reminder_ = std::make_unique<ExpiryReminder>(
      options.home, options.tls, [observers = options.observers](const std::string& warning) {
        for (const auto& observer : observers) observer->OnWarning(warning);
      });
  // Last: connections are accepted from here on, and the server that gets them is running.
  acceptor_ = std::make_unique<ConnectionAcceptor>(std::move(sockets), std::move(accepting));
  return absl::OkStatus();
}

ConnectionCounts ServiceHost::Connections() const {
  return acceptor_ == nullptr ? ConnectionCounts() : acceptor_->counts();
}

ServiceHost::~ServiceHost() { Shutdown(std::chrono::milliseconds(0)); }

std::shared_ptr<grpc::Channel> ServiceHost::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void ServiceHost::RefuseCalls() {
  server_->GetHealthCheckService()->SetServingStatus(false);
  if (gate_ != nullptr) gate_->Drain(std::chrono::milliseconds(0));
}

void ServiceHost::Shutdown(std::chrono::milliseconds grace) {
  // Null after an earlier call, and when Start() has failed.
  if (server_ == nullptr) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  if (port_server_ != nullptr) {
    gate_->Drain(grace);
    // After the drain, during which health checks and new calls still get an answer, and before the
    // shutdown, after which gRPC neither serves nor closes the connections that it is given.
    acceptor_.reset();
    port_server_->Shutdown(std::chrono::system_clock::now() + kLastWords);
    port_server_->Wait();
    port_server_.reset();
  }
  // The gate owns the calls of port_server_, so it outlives that server; its channel must not
  // outlive server_.
  gate_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + kLastWords);
  server_->Wait();
  server_.reset();
  // No handler runs any more. The pipeline service waits here for its jobs to reach a commit point.
  services_.clear();
}

}  // namespace braid
