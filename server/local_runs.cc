#include "server/local_runs.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kPoll(100);
constexpr std::chrono::milliseconds kResumePause(500);

bool RunsHere(const v1::Run& run) {
  // A scheduler continues its jobs without this server.
  if (HasEnded(run.state()) || !run.scheduler_job().empty()) return false;
  const auto record = ReadProcessRecord(RunDirectory(run.run_dir()).process());
  return record.ok() && IsAlive(record->identity);
}

bool IsAskedToStop(const v1::Run& run) {
  return ReadStopRequest(RunDirectory(run.run_dir())).has_value();
}

}  // namespace

LocalRuns::LocalRuns(std::shared_ptr<grpc::Channel> services, const std::filesystem::path& home,
                     Log log, std::chrono::milliseconds resume_limit)
    : client_(std::move(services)), list_(home / "runs_to_resume"), log_(std::move(log)) {
  const std::vector<std::string> ids =
      absl::StrSplit(ReadFile(list_).value_or(""), '\n', absl::SkipEmpty());
  pending_ = {ids.begin(), ids.end()};
  resuming_ = std::thread([this, resume_limit] { ResumeAll(resume_limit); });
}

LocalRuns::~LocalRuns() { EndResuming(); }

void LocalRuns::EndResuming() {
  ending_ = true;
  if (resuming_.joinable()) resuming_.join();
}

void LocalRuns::Record() const {
  const absl::Status written = WriteFileAtomically(list_, absl::StrJoin(pending_, "\n"));
  if (!written.ok()) log_(absl::StrCat("runs to resume: ", written.message()));
}

void LocalRuns::ResumeAll(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string cause;
  const auto is_settled = [&](const std::string& id) {
    if (ending_) return false;
    if (Resume(id, &cause)) return true;
    if (std::chrono::steady_clock::now() < deadline) return false;
    // Not kept for a later process: by then its user may have resumed and stopped it.
    log_(absl::StrCat("cannot resume ", id, ": ", cause, "; resume it with 'braid resume ", id,
                      "'"));
    return true;
  };
  while (!pending_.empty() && !ending_) {
    if (std::erase_if(pending_, is_settled) > 0) Record();
    if (!pending_.empty()) std::this_thread::sleep_for(kResumePause);
  }
}

bool LocalRuns::Resume(const std::string& id, std::string* cause) {
  const absl::StatusOr<v1::Run> run = client_.GetRun(id);
  // A run that was deleted needs nothing more; after another error it is tried again.
  *cause = std::string(run.status().message());
  if (!run.ok()) return absl::IsNotFound(run.status());
  // A run whose end was not recorded gets a supervisor, which records it. A run that the earlier
  // process did not reach before it died continues; if it stops later, its user has stopped it.
  *cause = "it was asked to stop, but has not ended";
  if (!HasEnded(run->state())) return !IsAskedToStop(*run);
  if (run->state() != v1::RUN_STOPPED) return true;
  const absl::Status resumed = client_.ResumeRun(id).status();
  *cause = std::string(resumed.message());
  // Its last processes still count as alive, or the disk is full or the database busy.
  if (absl::IsFailedPrecondition(resumed) || absl::IsResourceExhausted(resumed) ||
      absl::IsUnavailable(resumed) || absl::IsDeadlineExceeded(resumed)) {
    return false;
  }
  log_(resumed.ok() ? absl::StrCat("resumed ", id)
                    : absl::StrCat("cannot resume ", id, ": ", resumed.message()));
  return true;
}

void LocalRuns::Stop(std::chrono::seconds limit) {
  EndResuming();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const absl::StatusOr<v1::ListRunsResponse> runs = client_.ListRuns();
  if (!runs.ok()) return log_(absl::StrCat("cannot stop runs: ", runs.status().message()));
  std::vector<std::string> stopping;
  for (const v1::Run& run : runs->runs()) {
    if (!RunsHere(run)) continue;
    stopping.push_back(run.id());
    // A run that its user is stopping stays stopped.
    if (!IsAskedToStop(run)) pending_.insert(run.id());
  }
  // Recorded before the runs are stopped: if this process is killed meanwhile, the next one still
  // resumes them.
  Record();
  // Concurrently, because StopRun waits for the end of its run, and the limit is for all runs.
  std::vector<std::thread> threads;
  for (const std::string& id : stopping) {
    threads.emplace_back([this, id, deadline] {
      absl::StatusOr<v1::Run> run = client_.StopRun(id);
      while (run.ok() && !HasEnded(run->state()) && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(kPoll);
        run = client_.GetRun(id);
      }
      log_(run.ok() ? absl::StrCat(HasEnded(run->state()) ? "stopped " : "still running: ", id)
                    : absl::StrCat("cannot stop ", id, ": ", run.status().message()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace braid
