// MPIJobs, through kubectl. Every run has its own job name, so applying a manifest twice makes one
// job. Experimental: this has not been run against a cluster.
#ifndef BRAID_CONTROL_LAUNCH_KUBERNETES_JOBS_H_
#define BRAID_CONTROL_LAUNCH_KUBERNETES_JOBS_H_

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "control/launch/background_answer.h"
#include "control/launch/scheduler.h"

namespace braid {

// Parses the output of `kubectl get mpijobs --output=json` and returns the statuses by name: the
// newest condition that is true decides. Unavailable when the text is not such a list.
absl::StatusOr<std::map<std::string, JobStatus>> ReadMpiJobStatuses(const std::string& json);

class KubernetesJobs final : public Scheduler {
 public:
  absl::Status Check() const override;
  absl::StatusOr<SchedulerRecord> Submit(const std::filesystem::path& file,
                                         const SchedulerRecord& record) override;
  absl::StatusOr<std::optional<SchedulerRecord>> Find(const SchedulerRecord& record) override;
  std::string NameOf(const SchedulerRecord& record) const override;
  // Runs kubectl at most once a second per namespace, for all runs together.
  absl::StatusOr<JobStatus> Look(const SchedulerRecord& record, Freshness freshness) override;
  absl::Status Cancel(const SchedulerRecord& record) override;

 private:
  using Statuses = BackgroundAnswer<std::map<std::string, JobStatus>>;
  Statuses& StatusesIn(const std::string& place);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Statuses>> statuses_;  // by namespace
};

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_KUBERNETES_JOBS_H_
