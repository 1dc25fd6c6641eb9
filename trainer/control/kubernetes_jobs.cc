#include "trainer/control/kubernetes_jobs.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "formats/status_macros.h"
#include "trainer/control/subprocess.h"

namespace braid {
namespace {

constexpr std::chrono::seconds kAnswerAge(1);
constexpr size_t kMaxAnswers = 1000;

// What kubectl says of the job; empty when there is none.
absl::StatusOr<std::string> GetJob(const SchedulerRecord& record, const std::string& name) {
  ASSIGN_OR_RETURN(
      const std::vector<std::string> lines,
      AskScheduler({"kubectl", "get", "mpijobs.kubeflow.org", name, "--ignore-not-found",
                    "--output=json", absl::StrCat("--namespace=", record.place)}));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<JobStatus> AskStatus(const SchedulerRecord& record) {
  ASSIGN_OR_RETURN(const std::string job, GetJob(record, record.job));
  if (job.empty()) return JobStatus{JobPhase::kEnded, "no longer known to Kubernetes"};
  return ReadMpiJobStatus(job);
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

}  // namespace

absl::StatusOr<JobStatus> ReadMpiJobStatus(const std::string& text) {
  const nlohmann::json job = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!job.is_object() || Text(job, "kind") != "MPIJob") {
    return absl::UnavailableError(
        absl::StrCat("kubectl get mpijob: got \"", text.substr(0, 80), "\", expected an MPIJob"));
  }
  JobStatus status{JobPhase::kQueued, "Created"};
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

absl::Status KubernetesJobs::Check() const {
  return RequireProgram("kubectl", "install it where the service runs").status();
}

absl::StatusOr<SchedulerRecord> KubernetesJobs::Submit(const std::filesystem::path& file,
                                                       const SchedulerRecord& record) {
  RETURN_IF_ERROR(
      AskScheduler({"kubectl", "apply", absl::StrCat("--filename=", file.string())}).status());
  SchedulerRecord submitted = record;
  submitted.job = record.job_name;
  return submitted;
}

absl::StatusOr<std::optional<SchedulerRecord>> KubernetesJobs::Find(const SchedulerRecord& record) {
  ASSIGN_OR_RETURN(const std::string job, GetJob(record, record.job_name));
  if (job.empty()) return std::nullopt;
  SchedulerRecord found = record;
  found.job = record.job_name;
  return found;
}

absl::StatusOr<JobStatus> KubernetesJobs::Look(const SchedulerRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto known = answers_.find(record.job);
  if (known != answers_.end() &&
      std::chrono::steady_clock::now() - known->second.asked < kAnswerAge) {
    return known->second.status;
  }
  // Those that nobody asks about any more.
  if (answers_.size() > kMaxAnswers) answers_.clear();
  Answer answer{AskStatus(record), std::chrono::steady_clock::now()};
  return answers_.insert_or_assign(record.job, std::move(answer)).first->second.status;
}

void KubernetesJobs::Forget(const SchedulerRecord& record) {
  const std::lock_guard lock(mutex_);
  answers_.erase(record.job);
}

absl::Status KubernetesJobs::Cancel(const SchedulerRecord& record) {
  Forget(record);
  return AskScheduler({"kubectl", "delete", "mpijobs.kubeflow.org", record.job,
                       "--ignore-not-found", "--wait=false",
                       absl::StrCat("--namespace=", record.place)})
      .status();
}

}  // namespace braid
