#include "control/launch/scheduler.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "control/launch/kubernetes_jobs.h"
#include "control/launch/slurm_jobs.h"
#include "control/supervision/subprocess.h"

namespace braid {
namespace {

// The environment of a trainer, and what the programs need to find their scheduler. sbatch passes
// its environment on to the job, so variables of an allocation that this process runs in are left
// out.
std::vector<std::string> SchedulerEnvironment() {
  std::vector<std::string> environment = TrainerEnvironment();
  std::erase_if(environment, [](const std::string& variable) {
    return absl::StartsWith(variable, "SLURM_") && !absl::StartsWith(variable, "SLURM_CONF=");
  });
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (absl::StartsWith(text, "KUBECONFIG=") || absl::StartsWith(text, "KUBERNETES_SERVICE_")) {
      environment.push_back(text);
    }
  }
  return environment;
}

}  // namespace

std::filesystem::path SchedulerFile(const RunDirectory& run) {
  return run.root() / "scheduler.json";
}

std::optional<SchedulerRecord> ReadSchedulerRecord(const RunDirectory& run) {
  const absl::StatusOr<std::string> text = ReadFile(SchedulerFile(run));
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<nlohmann::json> object = OpenSealedJson(*text, SchedulerFile(run));
  if (!object.ok()) return std::nullopt;
  const nlohmann::json& json = *object;
  const auto string = [&](const char* field) {
    const auto it = json.find(field);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto number = [&](const char* field) {
    const auto it = json.find(field);
    return it != json.end() && it->is_number() ? it->get<double>() : 0.0;
  };
  SchedulerRecord record;
  if (!v1::LaunchBackend_Parse(string("backend"), &record.backend)) return std::nullopt;
  record.job_name = string("job_name");
  record.job = string("job");
  record.place = string("place");
  record.submitted_at = number("submitted_at");
  record.cancelled_at = number("cancelled_at");
  record.refusal = string("refusal");
  if (record.job_name.empty()) return std::nullopt;
  return record;
}

absl::Status CheckSchedulerRecord(const RunDirectory& run) {
  std::error_code error;
  const std::filesystem::path file = SchedulerFile(run);
  if (!std::filesystem::exists(file, error) || ReadSchedulerRecord(run)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      file.string(),
      ": not a scheduler record as it was written; restore it from a backup, or delete it once the "
      "scheduler has no job of this run"));
}

absl::Status WriteSchedulerRecord(const RunDirectory& run, const SchedulerRecord& record) {
  const nlohmann::json json = {{"backend", v1::LaunchBackend_Name(record.backend)},
                               {"job_name", record.job_name},
                               {"job", record.job},
                               {"place", record.place},
                               {"submitted_at", record.submitted_at},
                               {"cancelled_at", record.cancelled_at},
                               {"refusal", record.refusal}};
  return WriteFileAtomically(SchedulerFile(run), SealJson(json));
}

Scheduler* SchedulerOf(v1::LaunchBackend backend) {
  static auto* const slurm = new SlurmJobs;
  static auto* const kubernetes = new KubernetesJobs;
  if (backend == v1::SLURM) return slurm;
  if (backend == v1::KUBERNETES) return kubernetes;
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> AskScheduler(std::vector<std::string> arguments,
                                                      std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::string program = arguments.front();
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) {
    lines.emplace_back(line);
    return true;
  };
  ASSIGN_OR_RETURN(
      const SubprocessResult result,
      RunSubprocess({.arguments = std::move(arguments), .environment = SchedulerEnvironment()},
                    keep, [&] { return std::chrono::steady_clock::now() > deadline; }));
  if (result.killed) {
    return absl::DeadlineExceededError(
        absl::StrCat(program, " did not answer within ", timeout.count(), " seconds"));
  }
  if (result.exit_code == 0) return lines;
  return absl::UnavailableError(
      absl::StrCat(program, " failed with exit code ", result.exit_code, ": ",
                   std::string(absl::StripAsciiWhitespace(result.error_output))));
}

}  // namespace braid
