#include "control/launch/slurm_jobs.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"

namespace braid {
namespace {

constexpr char kFormat[] = "%i|%T|%r|%j";

bool IsJobId(const std::string& text) {
  return !text.empty() && text.size() <= 19 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Asks for all states: for some minutes after the end of a job slurmctld reports how it ended.
absl::StatusOr<std::vector<SlurmJob>> AskQueue(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"squeue", "--noheader", "--states=all",
                                        absl::StrCat("--format=", kFormat)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, AskScheduler(std::move(arguments)));
  std::vector<SlurmJob> jobs;
  for (const std::string& line : lines) {
    if (std::optional<SlurmJob> job = ParseSlurmJob(line)) jobs.push_back(*std::move(job));
  }
  return jobs;
}

// Finds a job that slurmctld has forgotten in the accounting database. Many clusters have none;
// then nothing is found. Without a start time, sacct lists only the jobs of the current day.
std::optional<std::string> FindAccounted(const std::string& name) {
  if (!FindProgram("sacct")) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> lines =
      AskScheduler({"sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID",
                    "--starttime=now-30days", absl::StrCat("--name=", name)});
  if (!lines.ok()) return std::nullopt;
  const auto found = std::find_if(lines->begin(), lines->end(), IsJobId);
  return found == lines->end() ? std::nullopt : std::optional<std::string>(*found);
}

}  // namespace

std::optional<SlurmJob> ParseSlurmJob(std::string_view line) {
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(line.data(), line.size()), '|');
  if (fields.size() != 4 || !IsJobId(fields[0])) return std::nullopt;
  return SlurmJob{.id = fields[0], .state = fields[1], .reason = fields[2], .name = fields[3]};
}

std::string TextOfSlurmEnd(std::string_view state) {
  static const auto* const texts = new std::map<std::string_view, const char*>{
      {"TIMEOUT", "reached its time limit"}, {"NODE_FAIL", "lost a node"},
      {"PREEMPTED", "was preempted"},        {"OUT_OF_MEMORY", "ran out of memory"},
      {"DEADLINE", "missed its deadline"},   {"BOOT_FAIL", "could not boot its nodes"},
      {"CANCELLED", "was canceled"}};
  const auto text = texts->find(state.substr(0, state.find(' ')));  // "CANCELLED by 1000"
  return absl::StrCat(text == texts->end() ? "ended" : text->second, " (", std::string(state), ")");
}

JobPhase PhaseOfSlurmState(std::string_view state) {
  static const auto* const queued =
      new std::set<std::string_view>{"PENDING",     "CONFIGURING",  "REQUEUED",     "REQUEUE_HOLD",
                                     "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
  static const auto* const started = new std::set<std::string_view>{
      "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"};
  if (queued->contains(state)) return JobPhase::kQueued;
  return started->contains(state) ? JobPhase::kStarted : JobPhase::kEnded;
}

absl::Status ReadSbatchAnswer(const std::vector<std::string>& lines, SchedulerRecord* record) {
  // Plugins of the cluster may print lines before the answer.
  const std::string answer =
      lines.empty() ? "" : std::string(absl::StripAsciiWhitespace(lines.back()));
  const size_t semicolon = answer.find(';');
  if (!IsJobId(answer.substr(0, semicolon))) {
    return absl::UnavailableError(absl::StrCat("sbatch: got \"", answer, "\", expected a job id"));
  }
  record->job = answer.substr(0, semicolon);
  record->place = semicolon == std::string::npos ? "" : answer.substr(semicolon + 1);
  return absl::OkStatus();
}

SlurmJobs::SlurmJobs() : queue_([] { return AskQueue({absl::StrCat("--user=", geteuid())}); }) {}

absl::Status SlurmJobs::Check() const {
  for (const char* program : {"sbatch", "squeue", "scancel"}) {
    RETURN_IF_ERROR(
        RequireProgram(program, "install Slurm's commands (apt-get install slurm-client)")
            .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<SchedulerRecord> SlurmJobs::Submit(const std::filesystem::path& file,
                                                  const SchedulerRecord& record) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                   AskScheduler({"sbatch", "--parsable", file.string()}));
  SchedulerRecord submitted = record;
  RETURN_IF_ERROR(ReadSbatchAnswer(lines, &submitted));
  queue_.Forget();  // the cached queue does not contain this job
  return submitted;
}

absl::StatusOr<std::optional<SchedulerRecord>> SlurmJobs::Find(const SchedulerRecord& record) {
  ASSIGN_OR_RETURN(const std::vector<SlurmJob> jobs,
                   AskQueue({absl::StrCat("--name=", record.job_name)}));
  SchedulerRecord found = record;
  for (const SlurmJob& job : jobs) {
    if (job.name == record.job_name) found.job = job.id;
  }
  if (found.job.empty()) found.job = FindAccounted(record.job_name).value_or("");
  if (found.job.empty()) return std::nullopt;
  queue_.Forget();
  return found;
}

absl::StatusOr<JobStatus> SlurmJobs::Look(const SchedulerRecord& record, Freshness freshness) {
  ASSIGN_OR_RETURN(const std::vector<SlurmJob> jobs,
                   freshness == Freshness::kNow ? queue_.AskNow() : queue_.Newest());
  const auto job = std::find_if(jobs.begin(), jobs.end(),
                                [&](const SlurmJob& each) { return each.id == record.job; });
  if (job == jobs.end() && freshness == Freshness::kQueueOnly)
    return JobStatus{JobPhase::kEnded, ""};
  if (job == jobs.end()) return LookAtForgotten(record.job);
  const std::string reason = job->reason == "None" ? "" : absl::StrCat(" (", job->reason, ")");
  return JobStatus{.phase = PhaseOfSlurmState(job->state),
                   .description = job->state + reason,
                   .end = TextOfSlurmEnd(job->state),
                   .cancelled = absl::StartsWith(job->state, "CANCELLED")};
}

// slurmctld forgets jobs some minutes after their end; the accounting, where a cluster has one,
// does not. The state is unknown until sacct has answered.
absl::StatusOr<JobStatus> SlurmJobs::LookAtForgotten(const std::string& job) {
  std::unique_lock lock(mutex_);
  const auto ask = [job]() -> absl::StatusOr<std::string> {
    if (!FindProgram("sacct")) return "";
    const auto lines = AskScheduler({"sacct", "--noheader", "--parsable2", "--allocations",
                                     "--format=State", absl::StrCat("--jobs=", job)});
    return lines.ok() && !lines->empty() ? lines->front() : "";
  };
  auto& accounted = accounted_.try_emplace(job, ask, std::chrono::minutes(1)).first->second;
  // The answer is thread-safe and stays in place, so other jobs need not wait for this sacct.
  lock.unlock();
  ASSIGN_OR_RETURN(const std::string state, accounted.Newest());
  if (state.empty()) return JobStatus{JobPhase::kEnded, "no longer known to Slurm"};
  return JobStatus{.phase = JobPhase::kEnded,
                   .description = state,
                   .end = TextOfSlurmEnd(state),
                   .cancelled = absl::StartsWith(state, "CANCELLED")};
}

std::string SlurmJobs::NameOf(const SchedulerRecord& record) const {
  return absl::StrCat("Slurm job ", record.job);
}

absl::Status SlurmJobs::Cancel(const SchedulerRecord& record) {
  const absl::Status cancelled = AskScheduler({"scancel", record.job}).status();
  // Also after an error, since a request that was cut off may have had its effect.
  queue_.Forget();
  return cancelled;
}

}  // namespace braid
