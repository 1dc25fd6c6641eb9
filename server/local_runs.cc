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
// Maximum time for which resuming a run is tried: in a new container, the ranks of the old one
// count as alive for 30 s plus three steps.
constexpr std::chrono::minutes kResumeLimit(5);

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
                     Log log)
    : client_(std::move(services)), list_(home / "runs_to_resume"), log_(std::move(log)) {
  const std::vector<std::string> ids =
      absl::StrSplit(ReadFile(list_).value_or(""), '\n', absl::SkipEmpty());
  pending_ = {ids.begin(), ids.end()};
  resuming_ = std::thread([this] { ResumeAll(); });
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

void LocalRuns::ResumeAll() {
  const auto deadline = std::chrono::steady_clock::now() + kResumeLimit;
  while (!pending_.empty() && !ending_ && std::chrono::steady_clock::now() < deadline) {
    if (std::erase_if(pending_, [this](const std::string& id) { return Resume(id); }) > 0) {
      Record();
    }
    std::this_thread::sleep_for(kPoll);
  }
}

bool LocalRuns::Resume(const std::string& id) {
  const absl::StatusOr<v1::Run> run = client_.GetRun(id);
  // A run that was deleted needs nothing more; after another error it is tried again.
  if (!run.ok()) return absl::IsNotFound(run.status());
  // A run whose end was not recorded gets a supervisor, which records it. A run that the earlier
  // process did not reach before it died continues; if it stops later, its user has stopped it.
  if (!HasEnded(run->state())) return !IsAskedToStop(*run);
  if (run->state() != v1::RUN_STOPPED) return true;
  const absl::Status resumed = client_.ResumeRun(id).status();
  // Its last processes still count as alive.
  if (absl::IsFailedPrecondition(resumed)) return false;
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
