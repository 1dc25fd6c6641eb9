// MPIJobs, through kubectl. Runs have jobs of their own names, so applying one again changes
// nothing.
#ifndef BRAID_TRAINER_CONTROL_KUBERNETES_JOBS_H_
#define BRAID_TRAINER_CONTROL_KUBERNETES_JOBS_H_

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/control/scheduler.h"

namespace braid {

// Of what `kubectl get mpijob --output=json` prints: the newest condition that is true decides.
// Unavailable when it is no MPIJob.
absl::StatusOr<JobStatus> ReadMpiJobStatus(const std::string& json);

class KubernetesJobs final : public Scheduler {
 public:
  absl::Status Check() const override;
  absl::StatusOr<SchedulerRecord> Submit(const std::filesystem::path& file,
                                         const SchedulerRecord& record) override;
  absl::StatusOr<std::optional<SchedulerRecord>> Find(const SchedulerRecord& record) override;
  // One kubectl a job and second, however many ask.
  absl::StatusOr<JobStatus> Look(const SchedulerRecord& record) override;
  absl::Status Cancel(const SchedulerRecord& record) override;

 private:
  struct Answer {
    absl::StatusOr<JobStatus> status;
    std::chrono::steady_clock::time_point asked;
  };
  void Forget(const SchedulerRecord& record);

  std::mutex mutex_;
  std::map<std::string, Answer> answers_;  // by job
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_KUBERNETES_JOBS_H_
