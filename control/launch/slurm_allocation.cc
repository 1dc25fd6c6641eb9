#include "control/launch/slurm_allocation.h"

#include <array>
#include <chrono>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduler.h"

namespace braid {
namespace {

// Slurm kills the job 30 seconds (KillWait) after it asked it to end. The supervisor waits at most
// 10 seconds for the answers to two questions (kJobEndPatience).
constexpr std::chrono::seconds kAnswerTimeout(4);

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the value of NAME=VALUE in a line of scontrol; "" without it.
std::string FieldOf(std::string_view line, std::string_view name) {
  const std::string key = absl::StrCat(" ", std::string(name), "=");
  const std::string text = absl::StrCat(" ", std::string(line), " ");
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

// Returns "node n2 failed (down: Not responding)"; "" when all nodes are in order.
std::string FailedNode(const std::vector<std::string>& sinfo) {
  for (const std::string& line : sinfo) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('|', 2));
    if (fields.size() != 3) continue;
    constexpr std::array kBad = {"down", "fail", "unknown", "power", "no_respond"};
    for (const char* bad : kBad) {
      if (!absl::StartsWith(fields[1], bad)) continue;
      // sinfo appends a flag to some states, such as * for a node that does not respond.
      const std::string state = fields[1].substr(0, fields[1].find_first_of("*~#!%$@^-"));
      return absl::StrCat("node ", fields[0], " failed (", state, ": ", fields[2], ")");
    }
  }
  return "";
}

}  // namespace

std::optional<SlurmAllocation> OwnSlurmJob(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  SlurmAllocation job = {.job = Variable("SLURM_JOB_ID"),
                         .job_name = Variable("SLURM_JOB_NAME"),
                         .nodes = Variable("SLURM_JOB_NODELIST")};
  if (!record || record->backend != v1::SLURM || job.job.empty()) return std::nullopt;
  // The job of an allocation in which braid runs, for example, has another name.
  if (!absl::StartsWith(job.job_name, JobName(run.root(), ""))) return std::nullopt;
  if (!absl::SimpleAtoi(Variable("SLURM_RESTART_COUNT"), &job.restarts)) job.restarts = 0;
  return job;
}

absl::Status CheckNewestJob(const SlurmAllocation& job, const RunDirectory& run) {
  const std::optional<SchedulerRecord> newest = ReadSchedulerRecord(run);
  if (!newest || newest->job_name == job.job_name) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("Slurm job ", job.job, " is not the newest job of ", run.root().string(),
                   ", which continues in ", newest->job_name, "; nothing was started"));
}

JobEnd EndOfSlurmJob(const SlurmAllocation& job, std::string_view scontrol,
                     const std::vector<std::string>& sinfo) {
  const std::string name = absl::StrCat("Slurm job ", job.job);
  int restarts = 0;
  if (!absl::SimpleAtoi(FieldOf(scontrol, "Restarts"), &restarts)) restarts = 0;
  const std::string preempted = FieldOf(scontrol, "PreemptTime");
  std::string cause = FailedNode(sinfo);
  if (cause.empty() && !preempted.empty() && preempted != "None" && preempted != "N/A") {
    cause = "another job preempted it";
  }
  // Slurm counts a restart when it queues the job again, while its processes are still ending.
  if (restarts > job.restarts) {
    if (cause.empty()) cause = "it was requeued, for a reason that Slurm does not give";
    return {true, absl::StrCat("Slurm queued job ", job.job, " again because ", cause)};
  }
  if (!cause.empty()) return {false, absl::StrCat(name, " ended because ", cause)};
  if (FieldOf(scontrol, "Reason") == "TimeLimit") {
    return {false, absl::StrCat(name, " reached its time limit")};
  }
  // While a job that received SIGTERM is still RUNNING, Slurm is not ending it.
  const bool ends = FieldOf(scontrol, "JobState") != "RUNNING";
  return {false, absl::StrCat(name, ends ? " was canceled in Slurm" : " received SIGTERM")};
}

SchedulerJob JobOfSupervisor(const SlurmAllocation& job) {
  const auto ask = [job]() -> JobEnd {
    const auto lines =
        AskScheduler({"scontrol", "show", "job", "--oneliner", job.job}, kAnswerTimeout);
    if (!lines.ok() || lines->empty()) {
      return {false, absl::StrCat("Slurm ended job ", job.job, " and gave no reason")};
    }
    const auto nodes = AskScheduler(
        {"sinfo", "--noheader", "--Node", absl::StrCat("--nodes=", job.nodes), "--format=%N|%T|%E"},
        kAnswerTimeout);
    return EndOfSlurmJob(job, lines->front(), nodes.value_or(std::vector<std::string>()));
  };
  return {
      .name = absl::StrCat("Slurm job ", job.job), .restarted = job.restarts > 0, .ask_end = ask};
}

}  // namespace braid
