#include "pipeline/jobs/job_event_source.h"

#include "base/status_macros.h"
#include "pipeline/jobs/job_state.h"

namespace braid {
namespace {

class JobEventSource final : public EventSource<v1::JobEvent> {
 public:
  JobEventSource(std::string id, JobStore* jobs, JobWorker* worker)
      : id_(std::move(id)), jobs_(jobs), worker_(worker) {}

  uint64_t Version() override { return jobs_->VersionOf(id_); }

  absl::StatusOr<EventBatch<v1::JobEvent>> After(int64_t number) override {
    EventBatch<v1::JobEvent> batch;
    ASSIGN_OR_RETURN(const v1::Job job, jobs_->Get(id_));
    ASSIGN_OR_RETURN(batch.events, jobs_->EventsAfter(id_, number, kEventBatchBytes));
    // The job may be resumed between the two queries; then there are events after job.last_event().
    batch.last = IsFinal(job.state()) &&
                 (batch.events.empty() ? number >= job.last_event()
                                       : batch.events.back().number() == job.last_event());
    if (batch.events.empty() && !batch.last) RETURN_IF_ERROR(worker_->Unrecorded(id_));
    return batch;
  }

 private:
  const std::string id_;
  JobStore* const jobs_;
  JobWorker* const worker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EventSource<v1::JobEvent>>> OpenJobEvents(const std::string& id,
                                                                         JobStore* jobs,
                                                                         JobWorker* worker) {
  RETURN_IF_ERROR(jobs->Get(id).status());
  return std::make_unique<JobEventSource>(id, jobs, worker);
}

}  // namespace braid
