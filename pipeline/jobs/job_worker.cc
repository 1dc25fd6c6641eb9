#include "pipeline/jobs/job_worker.h"

#include <chrono>
#include <exception>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "formats/piece_scanner.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/jobs/retry_policy.h"
#include "pipeline/store/progress_throttle.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kJobWorkerPollInterval{200};
constexpr double kCancelPollSeconds = 0.1;

// Queries the store for a request to cancel a job, at most ten times per second.
class CancelPoll {
 public:
  CancelPoll(JobStore* jobs, std::string id) : jobs_(jobs), id_(std::move(id)) {}

  bool Requested() {
    const double now = SteadySeconds();
    if (requested_ || now - asked_at_ < kCancelPollSeconds) return requested_;
    asked_at_ = now;
    requested_ = jobs_->CancelRequested(id_).value_or(false);
    return requested_;
  }

 private:
  JobStore* const jobs_;
  const std::string id_;
  bool requested_ = false;
  double asked_at_ = -kCancelPollSeconds;
};

}  // namespace

JobWorker::JobWorker(const std::filesystem::path& home, JobStore* jobs, StageStore* stages,
                     int num_jobs, double retry_seconds)
    : lock_file_(home / kWorkerLockFile),
      jobs_(jobs),
      stages_(stages),
      retry_seconds_(retry_seconds) {
  for (int i = 0; i < num_jobs; ++i) threads_.emplace_back([this] { Loop(); });
}

JobWorker::~JobWorker() {
  stopping_ = true;
  jobs_->Wake();
  threads_.clear();
}

absl::Status JobWorker::Unrecorded(const std::string& id) {
  std::lock_guard guard(mutex_);
  const auto found = unrecorded_.find(id);
  return found == unrecorded_.end() ? absl::OkStatus() : found->second;
}

void JobWorker::Loop() {
  while (!stopping_) {
    // Read before the claim, so that a job that is submitted in between ends the wait below.
    const uint64_t seen = jobs_->changes();
    const absl::StatusOr<std::optional<v1::Job>> job = Claim();
    if (job.ok() && job->has_value()) {
      Run(**job);
      Release();
      continue;
    }
    Report(job.status());
    if (!stopping_) jobs_->WaitForChange(seen, kJobWorkerPollInterval);
  }
}

void JobWorker::Report(const absl::Status& claim) {
  std::lock_guard guard(mutex_);
  if (claim.message() == claim_error_) return;
  claim_error_ = std::string(claim.message());
  if (claim.ok()) return;
  std::cerr << "cannot start queued jobs: " << claim_error_ << "; trying again" << std::endl;
}

absl::StatusOr<bool> JobWorker::HoldLock() {
  if (lock_) return true;
  ASSIGN_OR_RETURN(const bool unfinished, jobs_->HasUnfinished());
  if (!unfinished) return false;
  ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::TryTake(lock_file_));
  if (!lock) return false;
  // The lock was free, so no process runs the jobs that are marked RUNNING.
  RETURN_IF_ERROR(jobs_->RequeueOrphans());
  // Kept only now: after an error above it is released, and the next turn starts over.
  lock_.emplace(*std::move(lock));
  return true;
}

absl::StatusOr<std::optional<v1::Job>> JobWorker::Claim() {
  // Locked throughout, so that no other thread releases the worker lock before the job is counted.
  std::lock_guard guard(mutex_);
  ASSIGN_OR_RETURN(const bool held, HoldLock());
  if (!held) return std::nullopt;
  auto job = jobs_->ClaimNext();
  if (job.ok() && job->has_value()) {
    ++num_running_;
  } else if (num_running_ == 0) {
    lock_.reset();
  }
  return job;
}

void JobWorker::Release() {
  std::lock_guard guard(mutex_);
  --num_running_;
  if (num_running_ == 0) lock_.reset();
}

absl::StatusOr<v1::JobResult> JobWorker::RunStages(const v1::Job& job) {
  ProgressThrottle throttle;
  CancelPoll cancel(jobs_, job.id());
  JobHooks hooks;
  hooks.report = [&](const v1::StageProgress& progress) {
    if (!throttle.Admit(progress, SteadySeconds())) return;
    // Progress is informational: an error in recording it does not fail the job.
    jobs_->RecordProgress(job.id(), progress).IgnoreError();
  };
  hooks.stop = [&] { return stopping_ || cancel.Requested(); };
  // An exception, such as running out of memory, fails this job and must not end a process that
  // serves others.
  try {
    // Resolves again, because the stored spec may come from a version with fewer settings.
    ASSIGN_OR_RETURN(const v1::CorpusSpec resolved, ResolveStoredSpec(job.spec()));
    return RunJob(resolved, stages_, hooks);
  } catch (const TokenizationError& error) {
    return absl::InvalidArgumentError(error.what());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory; provide more memory or reduce the corpus");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  }
}

absl::Status JobWorker::Record(const v1::Job& job, const absl::StatusOr<v1::JobResult>& result) {
  if (result.ok()) return jobs_->Succeed(job.id(), *result);
  if (absl::IsCancelled(result.status())) {
    if (stopping_) return jobs_->Requeue(job.id(), "interrupted; queued again");
    ASSIGN_OR_RETURN(const bool requested, jobs_->CancelRequested(job.id()));
    if (requested) return jobs_->MarkCancelled(job.id());
  }
  const std::string cause(result.status().message());
  return IsTransient(result.status()) ? jobs_->Retry(job.id(), cause, retry_seconds_)
                                      : jobs_->Fail(job.id(), cause);
}

void JobWorker::Run(const v1::Job& job) {
  {
    std::lock_guard guard(mutex_);
    unrecorded_.erase(job.id());
  }
  const absl::StatusOr<v1::JobResult> result = RunStages(job);
  const absl::Status recorded = Record(job, result);
  if (recorded.ok()) return;
  // The job remains RUNNING in the store; the next holder of the lock queues it again.
  const std::string outcome = result.ok() ? "succeeded" : std::string(result.status().message());
  const auto unrecorded = absl::ResourceExhaustedError(
      absl::StrCat(job.id(), ": ", outcome, ", but this cannot be recorded: ", recorded.message(),
                   "; free disk space, the job is then queued again"));
  std::cerr << unrecorded.message() << std::endl;
  {
    std::lock_guard guard(mutex_);
    unrecorded_[job.id()] = unrecorded;
  }
  jobs_->Wake();
}

}  // namespace braid
