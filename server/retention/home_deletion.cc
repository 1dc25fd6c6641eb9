#include "server/retention/home_deletion.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/file_lock.h"
#include "base/status_macros.h"
#include "control/launch/launch_lock.h"
#include "control/run_status.h"
#include "control/supervision/run_process.h"
#include "control/supervision/supervisor_lock.h"
#include "proto/state_name.h"
#include "runs/branch.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"
#include "server/retention/disk_tree.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Maximum time that a deletion waits until no other process uses a run that has ended.
constexpr double kRunReleaseSeconds = 5;
constexpr double kRunReleasePoll = 0.02;

bool IsRunItem(const std::string& id) { return absl::StartsWith(id, "run-"); }
bool IsPreparedItem(const std::string& id) {
  return absl::StartsWith(id, absl::StrCat(kPreparedDirectory, "/"));
}

absl::Status IsUsed(const std::string& id, const std::string& users) {
  return absl::FailedPreconditionError(absl::StrCat(
      id, " is needed: ", users, "; delete what uses it first, or all of it in one command"));
}

// Holds a run that has ended as it is: nothing can start it again meanwhile.
struct HeldRun {
  RunRecord record;
  std::optional<FileLock> launch, supervisor;
};

// Takes the locks of a run. FAILED_PRECONDITION while another process holds one of them.
absl::Status LockRun(const RunDirectory& run, HeldRun* held) {
  absl::StatusOr<FileLock> launch = TryLockLaunch(run);
  absl::StatusOr<FileLock> supervisor = TakeSupervisorLock(run);
  for (const absl::Status& status : {launch.status(), supervisor.status()}) {
    // A lock file that cannot be opened or locked says nothing about who holds it.
    if (!IsSystemError(status) && (absl::IsUnavailable(status) || absl::IsAlreadyExists(status))) {
      return absl::FailedPreconditionError(absl::StrCat(
          held->record.id, " is being started or still has a supervisor; stop it first"));
    }
    RETURN_IF_ERROR(status);
  }
  held->launch.emplace(*std::move(launch));
  held->supervisor.emplace(*std::move(supervisor));
  return absl::OkStatus();
}

// Takes the locks of a run that has ended and has no process. A supervisor records the end of its
// run, flushes its files, and exits, and braidd takes a lock while it notes the end. A client that
// deletes the run in between has done nothing wrong, so this waits for both.
absl::StatusOr<HeldRun> HoldEndedRun(const RunStore& runs, const std::string& id) {
  HeldRun held;
  ASSIGN_OR_RETURN(held.record, runs.Get(id));
  const RunDirectory run(held.record.run_dir);
  const auto state = [&] { return DescribeRun(held.record, UnixTime()).state(); };
  const double deadline = SteadySeconds() + kRunReleaseSeconds;
  while (true) {
    const bool may_wait = SteadySeconds() < deadline && HasEnded(state());
    if (may_wait && HasLiveProcess(run, UnixTime())) {
      SleepSeconds(kRunReleasePoll);
      continue;
    }
    std::error_code error;
    // The locks are files of this directory, which a launch that was interrupted early has not
    // made.
    const absl::Status locked =
        fs::exists(run.root(), error) ? LockRun(run, &held) : absl::OkStatus();
    if (may_wait && absl::IsFailedPrecondition(locked)) {
      SleepSeconds(kRunReleasePoll);
      continue;
    }
    RETURN_IF_ERROR(locked);
    // Read under the locks: a launch may have started the run before they were taken.
    const v1::RunState final = state();
    if (HasEnded(final) && !HasLiveProcess(run, UnixTime())) return held;
    return absl::FailedPreconditionError(
        absl::StrCat(id, " is ", StateName(final), "; stop it first: braid stop ", id));
  }
}

// Returns which checkpoints the run keeps, by its settings and its newest good checkpoint.
absl::StatusOr<CheckpointRetention> ReducedRetention(const RunRecord& record,
                                                     const fs::path& newest) {
  ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(record.run_dir).ReadSpec());
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(newest));
  ASSIGN_OR_RETURN(CheckpointRetention retention, RetentionOf(spec));
  retention.best_step = state.validation.best_step;
  // A finished run meets no loss spike any more.
  if (state.step >= spec.num_steps()) retention.regular_steps = 0;
  return retention;
}

}  // namespace

HomeDeletion::HomeDeletion(fs::path home, std::unique_ptr<ReleasedReserve> reserve,
                           std::unique_ptr<JobStore> jobs,
                           std::unique_ptr<JobDeletions> job_deletions,
                           std::unique_ptr<RunStore> runs)
    : home_(std::move(home)),
      reserve_(std::move(reserve)),
      jobs_(std::move(jobs)),
      job_deletions_(std::move(job_deletions)),
      runs_(std::move(runs)),
      items_(home_, jobs_.get(), runs_.get()) {}

absl::StatusOr<std::unique_ptr<HomeDeletion>> HomeDeletion::Open(const fs::path& home,
                                                                 const fs::path& state) {
  const fs::path absolute = fs::absolute(home).lexically_normal();
  const fs::path databases = state.empty() ? absolute : fs::absolute(state).lexically_normal();
  // First, because opening a database needs space, too: the first reader of a write-ahead log
  // creates its shared memory.
  auto reserve = std::make_unique<ReleasedReserve>(databases);
  ASSIGN_OR_RETURN(std::unique_ptr<JobStore> jobs, JobStore::Open(databases));
  ASSIGN_OR_RETURN(std::unique_ptr<JobDeletions> deletions, JobDeletions::Open(databases));
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> runs, RunStore::Open(absolute, databases));
  return std::unique_ptr<HomeDeletion>(new HomeDeletion(
      absolute, std::move(reserve), std::move(jobs), std::move(deletions), std::move(runs)));
}

absl::Status HomeDeletion::ReserveOne(const std::string& id, const std::string& directory,
                                      Reservations* reserved) const {
  ASSIGN_OR_RETURN(std::optional<DirectoryUse> one,
                   DirectoryUse::TryReserve(home_, home_ / directory));
  if (!one) {
    return absl::FailedPreconditionError(
        absl::StrCat(id, " is in use: a job, a launch, an evaluation or a served model reads ",
                     directory, "; retry when it has ended"));
  }
  reserved->emplace(directory, *std::move(one));
  return absl::OkStatus();
}

// Repeats until what was read under the reservations needs no further ones: meanwhile another job
// that owned the same directories may have been queued again.
absl::StatusOr<HomeDeletion::Reservations> HomeDeletion::Reserve(const std::string& id,
                                                                 const Options& options) {
  Reservations reserved;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<StoredItem> items, items_.Read(HomeItems::Detail::kUses));
    const std::set<std::string> freed = DirectoriesFreed(items, id, options.gone);
    const std::string users = UsersOf(items, freed, id, options.gone);
    if (!users.empty()) return IsUsed(id, users);
    std::erase_if(reserved, [&](const auto& entry) { return !freed.contains(entry.first); });
    if (reserved.size() == freed.size()) return reserved;
    for (const std::string& directory : freed) {
      if (!reserved.contains(directory)) RETURN_IF_ERROR(ReserveOne(id, directory, &reserved));
    }
  }
}

absl::StatusOr<int64_t> HomeDeletion::Delete(const std::string& id, const Options& options) {
  ASSIGN_OR_RETURN(Reservations reserved, Reserve(id, options));
  if (IsPreparedItem(id)) return DeletePrepared(id, options, std::move(reserved));
  return IsRunItem(id) ? DeleteRun(id, options, std::move(reserved))
                       : DeleteJob(id, options, std::move(reserved));
}

absl::StatusOr<int64_t> HomeDeletion::DeleteJob(const std::string& id, const Options& options,
                                                Reservations reserved) {
  const int64_t bytes = BytesOf(reserved);
  if (options.dry_run) return bytes;
  JobDeletion deletion = {.id = id, .directories = {}};
  for (const auto& [directory, reservation] : reserved) deletion.directories.insert(directory);
  // Fails for a job that was queued again: the transaction checks that it has ended.
  RETURN_IF_ERROR(job_deletions_->Delete(deletion, options.by, UnixTime()));
  for (const std::string& directory : deletion.directories) RETURN_IF_ERROR(MoveAside(directory));
  // Released first: removing may take long, and a new job may build a directory of that name.
  reserved.clear();
  for (const std::string& directory : deletion.directories) {
    RETURN_IF_ERROR(Purge(directory).status());
  }
  RETURN_IF_ERROR(job_deletions_->Finish(id));
  return bytes;
}

absl::StatusOr<int64_t> HomeDeletion::DeleteRun(const std::string& id, const Options& options,
                                                Reservations reserved) {
  const std::string directory = "runs/" + id;
  {
    ASSIGN_OR_RETURN(const HeldRun held, HoldEndedRun(*runs_, id));
    if (options.dry_run) return BytesOf(reserved);
    // Both under the locks: a launch that waits for them finds the run deleted, and a supervisor
    // that is started afterwards finds no run directory.
    RETURN_IF_ERROR(runs_->Delete(held.record, options.by, UnixTime()));
    RETURN_IF_ERROR(MoveAside(directory));
  }
  reserved.clear();
  ASSIGN_OR_RETURN(const int64_t bytes, Purge(directory));
  RETURN_IF_ERROR(runs_->FinishDeletion(id));
  return bytes;
}

absl::StatusOr<int64_t> HomeDeletion::ReduceCheckpoints(const std::string& id,
                                                        const Options& options) {
  // Another run may have been initialized from a checkpoint that is not the newest.
  ASSIGN_OR_RETURN(const Reservations reserved, Reserve(id, options));
  ASSIGN_OR_RETURN(const HeldRun held, HoldEndedRun(*runs_, id));
  const fs::path checkpoints = RunDirectory(held.record.run_dir).checkpoints();
  std::vector<std::string> damaged;
  ASSIGN_OR_RETURN(const std::optional<fs::path> newest,
                   NewestGoodCheckpoint(checkpoints, &damaged));
  if (!newest) return 0;
  ASSIGN_OR_RETURN(const CheckpointRetention retention, ReducedRetention(held.record, *newest));
  int64_t bytes = 0;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListCheckpoints(checkpoints));
  bool has_regular = false;
  for (const std::string& name : names) {
    const int64_t step = StepOfCheckpoint(name);
    // Names are in descending order of steps, so this is the newest regular checkpoint.
    const bool regular = !has_regular && IsRegular(retention, step);
    has_regular = has_regular || regular;
    if (name == newest->filename() || regular || IsKeptForGood(retention, step)) continue;
    bytes += DiskBytes(checkpoints / name);
    if (options.dry_run) continue;
    // Readers of checkpoints ignore this name, and the next start of the run removes the directory.
    const fs::path aside = checkpoints / absl::StrCat(name, kDeletedSuffix, ".tmp");
    RETURN_IF_ERROR(RenameAside(checkpoints / name, aside));
    RETURN_IF_ERROR(RemoveTree(aside));
  }
  // No rank is alive that could still write them (HoldEndedRun).
  if (!options.dry_run) RETURN_IF_ERROR(RemoveLeftovers(checkpoints));
  return bytes;
}

absl::StatusOr<int64_t> HomeDeletion::DeletePrepared(const std::string& id, const Options& options,
                                                     Reservations reserved) {
  if (options.dry_run) return BytesOf(reserved);
  RETURN_IF_ERROR(MoveAside(id));
  reserved.clear();
  return Purge(id);
}

// The name of a renamed directory is the record of its deletion.
void HomeDeletion::FinishPrepared(std::map<std::string, int64_t>* freed) const {
  std::error_code error;
  std::vector<fs::path> renamed;
  for (fs::directory_iterator entry(home_ / kPreparedDirectory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == kDeletedSuffix) renamed.push_back(entry->path());
  }
  for (const fs::path& directory : renamed) {
    const int64_t bytes = DiskBytes(directory);
    if (!RemoveTree(directory).ok()) continue;
    (*freed)[absl::StrCat(kPreparedDirectory, "/", directory.stem().string())] += bytes;
  }
}

absl::StatusOr<int64_t> HomeDeletion::FinishJob(const JobDeletion& deletion) {
  int64_t bytes = 0;
  bool finished = true;
  for (const std::string& directory : deletion.directories) {
    Reservations reserved;
    // If this fails, a job builds or reuses the directory at the moment; it will own the directory
    // once the job store says so.
    if (!ReserveOne(deletion.id, directory, &reserved).ok()) {
      finished = false;
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<StoredItem> items, items_.Read(HomeItems::Detail::kUses));
    const bool needed = std::ranges::any_of(items, [&](const StoredItem& item) {
      return item.owns.contains(directory) || item.uses.contains(directory);
    });
    if (!needed) RETURN_IF_ERROR(MoveAside(directory));
    // What had been renamed before the interruption is removed in any case.
    ASSIGN_OR_RETURN(const int64_t freed, Purge(directory));
    bytes += freed;
  }
  if (finished) RETURN_IF_ERROR(job_deletions_->Finish(deletion.id));
  return bytes;
}

// What cannot be removed, such as files of another user, is left to a later call and does not keep
// the rest from being removed.
absl::StatusOr<std::map<std::string, int64_t>> HomeDeletion::FinishInterrupted() {
  std::map<std::string, int64_t> freed;
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, runs_->UnfinishedDeletions());
  for (const std::string& id : runs) {
    const std::string directory = "runs/" + id;
    Reservations reserved;
    // Another process may have begun to read it since the interruption. A later call continues.
    if (!ReserveOne(id, directory, &reserved).ok()) continue;
    if (!MoveAside(directory).ok()) continue;
    const absl::StatusOr<int64_t> bytes = Purge(directory);
    if (!bytes.ok()) continue;
    freed[id] = *bytes;
    RETURN_IF_ERROR(runs_->FinishDeletion(id));
  }
  ASSIGN_OR_RETURN(const std::vector<JobDeletion> jobs, job_deletions_->Unfinished());
  for (const JobDeletion& deletion : jobs) {
    if (const auto bytes = FinishJob(deletion); bytes.ok()) freed[deletion.id] = *bytes;
  }
  FinishPrepared(&freed);
  return freed;
}

// Counts the bytes of each directory and of its ".tmp", in which an interrupted stage continues.
int64_t HomeDeletion::BytesOf(const Reservations& directories) const {
  int64_t bytes = 0;
  for (const auto& [directory, reservation] : directories) {
    bytes += DiskBytes(home_ / directory) + DiskBytes(home_ / (directory + ".tmp"));
  }
  return bytes;
}

absl::Status HomeDeletion::MoveAside(const std::string& directory) const {
  for (const char* const suffix : {"", ".tmp"}) {
    const std::string name = directory + suffix;
    RETURN_IF_ERROR(RenameAside(home_ / name, home_ / (name + kDeletedSuffix)));
  }
  return absl::OkStatus();
}

// Removes what MoveAside has renamed and returns its bytes.
absl::StatusOr<int64_t> HomeDeletion::Purge(const std::string& directory) const {
  int64_t bytes = 0;
  for (const char* const suffix : {"", ".tmp"}) {
    const fs::path aside = home_ / absl::StrCat(directory, suffix, kDeletedSuffix);
    bytes += DiskBytes(aside);
    RETURN_IF_ERROR(RemoveTree(aside));
  }
  return bytes;
}

}  // namespace braid
