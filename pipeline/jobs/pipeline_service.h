// PipelineService (pipeline.proto): corpus jobs over gRPC.
//
// State is HOME/jobs.sqlite and HOME/store/. Several processes may serve the
// same home; one of them runs its jobs. Destroying the service interrupts
// running jobs at their next commit point and leaves them queued; shut the
// server down first.
#ifndef BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_
#define BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"

namespace braid {

struct PipelineOptions {
  std::filesystem::path home;
  // Jobs run at a time. 0 serves and accepts jobs but runs none, for a process
  // that only looks.
  int num_workers = 1;
  // Queued and running jobs, and open watches, of one principal; 0: no limit.
  int64_t max_jobs = 0;
  int64_t max_watches = 0;
  // Corpora being described, likewise; each takes a thread.
  int64_t max_descriptions = 0;
  // Pause of a job after its first failure that may pass (retry_policy.h).
  double retry_seconds = 5;
};

// Errors: those of creating the home and opening its database.
absl::StatusOr<std::unique_ptr<grpc::Service>> MakePipelineService(const PipelineOptions& options);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_
