#include "trainer/control/generation_service.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "formats/status_macros.h"
#include "proto/grpc_status.h"
#include "trainer/control/child_event.h"
#include "trainer/control/model_directory.h"

namespace braid {

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeGenerationService(
    const ControlOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store, RunStore::Open(options.home));
  return std::make_unique<GenerationServiceImpl>(options, std::move(store));
}

GenerationServiceImpl::GenerationServiceImpl(const ControlOptions& options,
                                             std::unique_ptr<RunStore> store)
    : store_(std::move(store)),
      child_(options.trainer_binary.string(),
             std::filesystem::absolute(options.home) / "requests") {}

absl::Status GenerationServiceImpl::Generate(v1::GenerateRequest request,
                                             grpc::ServerContext* context,
                                             grpc::ServerWriter<v1::GenerateEvent>* writer) {
  ASSIGN_OR_RETURN(const std::filesystem::path model, ModelDirectory(*store_, request.model()));
  request.set_model(model.string());
  const auto forward = [&](std::string_view line) -> absl::Status {
    ASSIGN_OR_RETURN(const v1::GenerateEvent event, ParseChildEvent<v1::GenerateEvent>(line));
    return writer->Write(event) ? absl::OkStatus() : absl::CancelledError("the client is gone");
  };
  return child_.Run({.command = "generate",
                     .request = request,
                     .num_threads = request.num_threads(),
                     .on_event = forward,
                     .cancelled = [&] { return context->IsCancelled(); }});
}

grpc::Status GenerationServiceImpl::Generate(grpc::ServerContext* context,
                                             const v1::GenerateRequest* request,
                                             grpc::ServerWriter<v1::GenerateEvent>* writer) {
  return ToGrpc(Generate(*request, context, writer));
}

}  // namespace braid
