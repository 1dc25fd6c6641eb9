// PipelineService (pipeline.proto): corpus jobs over gRPC.
//
// Its state is HOME/jobs.sqlite and HOME/store/. Several processes may serve the same home
// directory; one of them runs its jobs. The destructor interrupts running jobs at their next commit
// point and leaves them queued. Requires: the server is shut down before the service is destroyed.
#ifndef BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_
#define BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"

namespace braid {

// The options of the service.
struct PipelineOptions {
  std::filesystem::path home;
  // Directory of jobs.sqlite and of the lock of its worker; empty: `home`.
  std::filesystem::path state = {};
  // Maximum number of concurrent jobs. A process with 0 serves requests and accepts jobs but runs
  // none.
  int num_workers = 1;
  // Maximum number of queued and running jobs, and of open watches, per principal; 0: no limit.
  int64_t max_jobs = 0;
  int64_t max_watches = 0;
  // Maximum number of concurrent DescribeCorpus calls per principal, each of which takes a thread;
  // 0: no limit.
  int64_t max_descriptions = 0;
  // Delay after the first transient failure of a job (retry_policy.h).
  double retry_seconds = 5;
};

// Creates the service. Errors: INVALID_ARGUMENT for a negative number of workers and for a home
// whose path is not UTF-8; those of creating the home directory and opening its database.
absl::StatusOr<std::unique_ptr<grpc::Service>> MakePipelineService(const PipelineOptions& options);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_PIPELINE_SERVICE_H_
