// The events of one job as an EventSource, for EventStreams.
#ifndef BRAID_PIPELINE_JOBS_JOB_EVENT_SOURCE_H_
#define BRAID_PIPELINE_JOBS_JOB_EVENT_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/job.pb.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/jobs/job_worker.h"
#include "rpc/event_source.h"

namespace braid {

// Returns the source of the events of a job. The stream ends after the last event of a finished
// job, or with the error of JobWorker::Unrecorded(). Errors: NOT_FOUND for an unknown job.
// Requires: `jobs` and `worker` outlive the source.
absl::StatusOr<std::unique_ptr<EventSource<v1::JobEvent>>> OpenJobEvents(const std::string& id,
                                                                         JobStore* jobs,
                                                                         JobWorker* worker);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_EVENT_SOURCE_H_
