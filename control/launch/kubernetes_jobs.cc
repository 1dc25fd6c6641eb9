#include "control/launch/kubernetes_jobs.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"

namespace braid {
namespace {

// Selects the jobs of all runs (kubernetes_manifest.cc).
constexpr char kSelector[] = "app.kubernetes.io/name=braid,app.kubernetes.io/component=run";

// Returns the JSON of the job; empty when there is none. With --ignore-not-found a missing job is
// not an error, so an error always means that nothing is known about the job.
absl::StatusOr<std::string> GetJob(const SchedulerRecord& record, const std::string& name) {
  ASSIGN_OR_RETURN(
      const std::vector<std::string> lines,
      AskScheduler({"kubectl", "get", "mpijobs.kubeflow.org", name, "--ignore-not-found",
                    "--output=json", absl::StrCat("--namespace=", record.place)}));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<std::map<std::string, JobStatus>> AskStatuses(const std::string& place) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                   AskScheduler({"kubectl", "get", "mpijobs.kubeflow.org",
                                 absl::StrCat("--selector=", kSelector), "--output=json",
                                 absl::StrCat("--namespace=", place)}));
  return ReadMpiJobStatuses(absl::StrJoin(lines, "\n"));
}

std::string Text(const nlohmann::json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

JobPhase PhaseOfCondition(const std::string& type) {
  if (type == "Succeeded" || type == "Failed") return JobPhase::kEnded;
  if (type == "Running" || type == "Restarting") return JobPhase::kStarted;
  return JobPhase::kQueued;  // Created, Suspended
}

absl::Status NotExpected(const std::string& text, const char* expected) {
  return absl::UnavailableError(
      absl::StrCat("kubectl get mpijobs: got \"", text.substr(0, 80), "\", expected ", expected));
}

JobStatus StatusOf(const nlohmann::json& job) {
  JobStatus status{JobPhase::kQueued, "Created"};
  // The operator adds the status some time after the job was created.
  const auto found = job.find("status");
  if (found == job.end() || !found->is_object()) return status;
  const auto conditions = found->find("conditions");
  if (conditions == found->end() || !conditions->is_array()) return status;
  std::string newest;  // RFC 3339 in UTC: sorts as text
  for (const nlohmann::json& condition : *conditions) {
    if (!condition.is_object() || Text(condition, "status") != "True") continue;
    const std::string since = Text(condition, "lastTransitionTime");
    if (since < newest) continue;
    newest = since;
    const std::string type = Text(condition, "type");
    const std::string reason = Text(condition, "reason");
    status = {PhaseOfCondition(type),
              reason.empty() ? type : absl::StrCat(type, " (", reason, ")")};
  }
  return status;
}

}  // namespace

absl::StatusOr<std::map<std::string, JobStatus>> ReadMpiJobStatuses(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto items = list.is_object() ? list.find("items") : list.end();
  if (items == list.end() || !items->is_array()) return NotExpected(text, "a list of MPIJobs");
  std::map<std::string, JobStatus> statuses;
  for (const nlohmann::json& job : *items) {
    if (!job.is_object()) continue;
    const auto metadata = job.find("metadata");
    if (metadata == job.end() || !metadata->is_object()) continue;
    statuses[Text(*metadata, "name")] = StatusOf(job);
  }
  return statuses;
}

absl::Status KubernetesJobs::Check() const {
  return RequireProgram("kubectl", "install it where the service runs").status();
}

absl::StatusOr<SchedulerRecord> KubernetesJobs::Submit(const std::filesystem::path& file,
                                                       const SchedulerRecord& record) {
  RETURN_IF_ERROR(
      AskScheduler({"kubectl", "apply", absl::StrCat("--filename=", file.string())}).status());
  SchedulerRecord submitted = record;
  submitted.job = record.job_name;
  StatusesIn(record.place).Forget();  // the cached list does not contain this job
  return submitted;
}

absl::StatusOr<std::optional<SchedulerRecord>> KubernetesJobs::Find(const SchedulerRecord& record) {
  ASSIGN_OR_RETURN(const std::string job, GetJob(record, record.job_name));
  if (job.empty()) return std::nullopt;
  SchedulerRecord found = record;
  found.job = record.job_name;
  StatusesIn(record.place).Forget();
  return found;
}

std::string KubernetesJobs::NameOf(const SchedulerRecord& record) const {
  return absl::StrCat("MPIJob ", record.job);
}

absl::StatusOr<JobStatus> KubernetesJobs::Look(const SchedulerRecord& record, Freshness freshness) {
  ASSIGN_OR_RETURN(const auto statuses, freshness == Freshness::kNow
                                            ? StatusesIn(record.place).AskNow()
                                            : StatusesIn(record.place).Newest());
  const auto found = statuses.find(record.job);
  if (found != statuses.end()) return found->second;
  return JobStatus{JobPhase::kEnded, "no longer known to Kubernetes"};
}

KubernetesJobs::Statuses& KubernetesJobs::StatusesIn(const std::string& place) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Statuses>& statuses = statuses_[place];
  if (!statuses) statuses = std::make_unique<Statuses>([place] { return AskStatuses(place); });
  return *statuses;
}

absl::Status KubernetesJobs::Cancel(const SchedulerRecord& record) {
  const absl::Status deleted =
      AskScheduler({"kubectl", "delete", "mpijobs.kubeflow.org", record.job, "--ignore-not-found",
                    "--wait=false", absl::StrCat("--namespace=", record.place)})
          .status();
  // Also after an error, since a request that was cut off may have had its effect.
  StatusesIn(record.place).Forget();
  return deleted;
}

}  // namespace braid
