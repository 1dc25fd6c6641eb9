// braid.v1.GenerationService.
#ifndef BRAID_TRAINER_CONTROL_GENERATION_SERVICE_H_
#define BRAID_TRAINER_CONTROL_GENERATION_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "braid/v1/generation.grpc.pb.h"
#include "trainer/control/control_service.h"
#include "trainer/control/model_child.h"
#include "trainer/control/run_store.h"

namespace braid {

class GenerationServiceImpl final : public v1::GenerationService::Service {
 public:
  GenerationServiceImpl(const ControlOptions& options, std::unique_ptr<RunStore> store);

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override;

 private:
  absl::Status Generate(v1::GenerateRequest request, grpc::ServerContext* context,
                        grpc::ServerWriter<v1::GenerateEvent>* writer);

  const std::unique_ptr<RunStore> store_;
  const ModelChild child_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_GENERATION_SERVICE_H_
