#include "server/retention/home_items.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/directory_use.h"
#include "base/file_error.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "control/run_status.h"
#include "pipeline/jobs/job_directories.h"
#include "pipeline/jobs/job_state.h"
#include "proto/absolute_paths.h"
#include "proto/state_name.h"
#include "runs/run_directory.h"
#include "runs/run_evaluation.h"
#include "runs/run_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";

double UnixSeconds(fs::file_time_type time) {
  const std::chrono::duration<double> since =
      std::chrono::file_clock::to_sys(time).time_since_epoch();
  return since.count();
}

bool HasFile(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

HomeItems::HomeItems(fs::path home, JobStore* jobs, RunStore* runs)
    : home_(std::move(home)), jobs_(jobs), runs_(runs) {}

std::set<std::string> HomeItems::InHome(const std::set<std::string>& paths) const {
  std::set<std::string> directories;
  for (const std::string& path : paths) directories.insert(DirectoryInHome(home_, path));
  directories.erase("");
  return directories;
}

StoredItem HomeItems::OfJob(const v1::Job& job) const {
  return {.id = job.id(),
          .name = job.spec().name(),
          .principal = job.principal(),
          .created = job.created_at(),
          .finished = job.finished_at(),
          .state = StateName(job.state()),
          .ended = IsFinal(job.state()),
          .owns = DirectoriesOf(job),
          .uses = InHome(AbsolutePathsIn(job.spec())),
          // All that is known of a damaged job is its id and its state.
          .uses_unknown = !job.has_spec()};
}

std::set<std::string> HomeItems::UsesOfRun(const std::string& id, const fs::path& directory,
                                           bool* unknown) {
  *unknown = false;
  if (const auto known = uses_of_runs_.find(id); known != uses_of_runs_.end()) return known->second;
  std::set<std::string> uses;
  v1::RunSpec requested;
  const absl::StatusOr<std::string> bytes = runs_->SpecOf(id);
  const bool has_request = bytes.ok() && requested.ParseFromString(*bytes);
  if (has_request) {
    uses.merge(InHome(AbsolutePathsIn(requested)));
    // The request may name a run by its id, or relative paths, which the resolved spec replaces.
    if (runs_->Get(requested.init_from()).ok()) uses.insert("runs/" + requested.init_from());
    uses.merge(InHome({AbsolutePath(requested.dataset_dir())}));
  }
  const absl::StatusOr<v1::RunSpec> resolved = RunDirectory(directory).ReadSpec();
  if (resolved.ok()) uses.merge(InHome(AbsolutePathsIn(*resolved)));
  *unknown = !has_request && !resolved.ok();
  uses.erase("runs/" + id);
  // Without the resolved spec, which a launch may be about to write, the set is not final.
  if (resolved.ok()) uses_of_runs_[id] = uses;
  return uses;
}

StoredItem HomeItems::OfRun(const RunRecord& record, Detail detail) {
  StoredItem item = {.id = record.id,
                     .principal = record.principal,
                     .is_run = true,
                     .created = record.created,
                     .owns = {"runs/" + record.id}};
  item.uses = UsesOfRun(record.id, record.run_dir, &item.uses_unknown);
  if (detail == Detail::kUses) return item;
  const v1::Run run = DescribeRun(record, UnixTime());
  item.name = run.spec().name();
  item.finished = run.finished_at();
  item.state = StateName(run.state());
  item.ended = HasEnded(run.state());
  item.evaluated = HasFile(RunDirectory(record.run_dir).evaluation()) ||
                   HasFile(record.run_dir / kActiveExpertsFile) ||
                   HasFile(record.run_dir / "tasks/result.json");
  return item;
}

// A command that was killed may have left only the ".tmp" of a directory.
std::vector<StoredItem> HomeItems::Prepared() const {
  std::map<std::string, double> last_uses;
  std::error_code error;
  for (fs::directory_iterator entry(home_ / kPreparedDirectory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::error_code gone;
    if (!entry->is_directory(gone) || name.ends_with(kDeletedSuffix)) continue;
    // `braid finetune` sets this time at each use.
    const fs::file_time_type time = entry->last_write_time(gone);
    if (gone) continue;
    if (name.ends_with(kTemporarySuffix)) name.resize(name.size() - kTemporarySuffix.size());
    double& last_use = last_uses[absl::StrCat(kPreparedDirectory, "/", name)];
    last_use = std::max(last_use, UnixSeconds(time));
  }
  std::vector<StoredItem> items;
  for (const auto& [id, last_use] : last_uses) {
    items.push_back(
        {.id = id, .is_prepared = true, .finished = last_use, .ended = true, .owns = {id}});
  }
  return items;
}

absl::StatusOr<std::vector<StoredItem>> HomeItems::Read(Detail detail) {
  std::vector<StoredItem> items;
  ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, jobs_->List());
  // After the jobs: one that is queued again meanwhile moves its directories here.
  ASSIGN_OR_RETURN(auto earlier, jobs_->EarlierDirectories());
  for (const v1::Job& job : jobs) {
    items.push_back(OfJob(job));
    items.back().owns.merge(earlier[job.id()]);
  }
  ASSIGN_OR_RETURN(const std::vector<RunRecord> records, runs_->List());
  // A directory whose deletion was interrupted belongs to no run.
  ASSIGN_OR_RETURN(const std::vector<std::string> deleted, runs_->UnfinishedDeletions());
  std::set<std::string> known(deleted.begin(), deleted.end());
  for (const RunRecord& record : records) {
    items.push_back(OfRun(record, detail));
    known.insert(record.id);
  }
  // A run whose row was lost with the database still needs its dataset and its model.
  std::error_code error;
  for (fs::directory_iterator entry(home_ / "runs", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string id = entry->path().filename().string();
    if (known.contains(id) || id.ends_with(kDeletedSuffix)) continue;
    if (!HasFile(RunDirectory(entry->path()).spec())) continue;
    StoredItem item = {.id = id, .is_run = true, .is_unlisted = true, .owns = {"runs/" + id}};
    item.uses = UsesOfRun(id, entry->path(), &item.uses_unknown);
    items.push_back(std::move(item));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return SystemError("list", home_ / "runs", error.value());
  }
  for (StoredItem& item : Prepared()) items.push_back(std::move(item));
  SortForDeletion(&items);
  return items;
}

}  // namespace braid
