#include "cli/grpc_host.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/executable_path.h"
#include "cli/grpc_credentials.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"
#include "pipeline/pipeline_service.h"
#include "proto/config_text.h"
#include "retrieval/embedding_service.h"
#include "retrieval/grpc_channel.h"
#include "retrieval/hashing_embedder.h"
#include "retrieval/neighbor_service.h"
#include "trainer/control/analysis_service.h"
#include "trainer/control/training_service.h"

namespace braid {
namespace {

const std::map<std::string, ServiceName>& KnownServices() {
  static const auto* const known = new std::map<std::string, ServiceName>{
      {"pipeline", ServiceName::kPipeline},   {"training", ServiceName::kTraining},
      {"analysis", ServiceName::kAnalysis},   {"embedding", ServiceName::kEmbedding},
      {"neighbors", ServiceName::kNeighbors},
  };
  return *known;
}

ControlOptions ControlOptionsFor(const HostOptions& options) {
  ControlOptions control;
  control.home = options.home;
  control.trainer_binary = SiblingProgram("braid-trainer");
  return control;
}

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeHashingService() {
  ASSIGN_OR_RETURN(std::unique_ptr<HashingEmbedder> embedder,
                   HashingEmbedder::Create(HashingOptions(), std::nullopt));
  return MakeEmbeddingService(std::move(embedder));
}

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeService(ServiceName name,
                                                           const HostOptions& options) {
  switch (name) {
    case ServiceName::kPipeline: {
      if (options.tls.any()) {  // what its jobs show to embedding and neighbour servers
        ASSIGN_OR_RETURN(auto credentials,
                         MakeChannelCredentials(options.listen, options.tls, options.insecure));
        SetRetrievalCredentials(std::move(credentials));
      }
      PipelineOptions pipeline;
      pipeline.home = options.home;
      pipeline.num_workers = options.run_jobs ? 1 : 0;
      return MakePipelineService(pipeline);
    }
    case ServiceName::kTraining:
      return MakeTrainingService(ControlOptionsFor(options));
    case ServiceName::kAnalysis:
      return MakeAnalysisService(ControlOptionsFor(options));
    case ServiceName::kEmbedding:
      return MakeHashingService();
    case ServiceName::kNeighbors:
      return MakeNeighborService(options.home / "neighbors");
  }
  return absl::InternalError("unknown service");
}

}  // namespace

absl::StatusOr<std::set<ServiceName>> ParseServiceNames(const std::string& list) {
  std::set<ServiceName> services;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(list, ',', absl::SkipWhitespace()))) {
    const auto found = KnownServices().find(name);
    if (found == KnownServices().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--services: unknown service \"", name,
                       "\"; known: pipeline, training, analysis, embedding, neighbors"));
    }
    services.insert(found->second);
  }
  if (services.empty()) return absl::InvalidArgumentError("--services names no service");
  return services;
}

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(const HostOptions& options) {
  RETURN_IF_ERROR(MakeDirectories(options.home));
  std::unique_ptr<ServiceHost> host(new ServiceHost);
  grpc::ServerBuilder builder;
  if (!options.listen.empty()) {
    RETURN_IF_ERROR(CheckAddress(options.listen));
    ASSIGN_OR_RETURN(auto credentials,
                     MakeServerCredentials(options.listen, options.tls, options.insecure));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    builder.AddListeningPort(options.listen, credentials, &host->port_);
  }
  for (const ServiceName name : options.services) {
    ASSIGN_OR_RETURN(auto service, MakeService(name, options));
    builder.RegisterService(service.get());
    host->services_.push_back(std::move(service));
  }
  builder.SetMaxReceiveMessageSize(-1);
  host->server_ = builder.BuildAndStart();
  if (host->server_ == nullptr || (!options.listen.empty() && host->port_ == 0)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", options.listen, "; is the port in use?"));
  }
  return host;
}

ServiceHost::~ServiceHost() { Shutdown(std::chrono::milliseconds(0)); }

std::shared_ptr<grpc::Channel> ServiceHost::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void ServiceHost::Shutdown(std::chrono::milliseconds grace) {
  if (server_ == nullptr) return;
  if (auto* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(false);
  }
  server_->Shutdown(std::chrono::system_clock::now() + grace);
  server_->Wait();
  server_.reset();
  services_.clear();
}

}  // namespace braid
