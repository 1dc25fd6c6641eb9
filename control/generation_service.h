// braid.v1.GenerationService; see docs/generation.md.
#ifndef BRAID_CONTROL_GENERATION_SERVICE_H_
#define BRAID_CONTROL_GENERATION_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "braid/v1/generation.grpc.pb.h"
#include "control/control_service.h"
#include "control/model_server.h"
#include "control/run_store.h"

namespace braid {

// Generate is long-lived and may be queued, so it uses the callback API and holds no thread.
using GenerationServiceBase =
    v1::GenerationService::WithCallbackMethod_Generate<v1::GenerationService::Service>;

class GenerationServiceImpl final : public GenerationServiceBase {
 public:
  GenerationServiceImpl(const ControlOptions& options, std::unique_ptr<RunStore> store);

  grpc::ServerWriteReactor<v1::GenerateEvent>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::Status DescribeServing(grpc::ServerContext* context,
                               const v1::DescribeServingRequest* request,
                               v1::DescribeServingResponse* response) override;

 private:
  const std::unique_ptr<RunStore> store_;
  ModelServer server_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_GENERATION_SERVICE_H_
