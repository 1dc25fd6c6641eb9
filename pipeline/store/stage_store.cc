#include "pipeline/store/stage_store.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Removes the files that a stage needed only while it was built.
absl::Status RemoveUnlisted(const std::filesystem::path& directory, const Manifest& manifest) {
  std::error_code error;
  std::vector<std::filesystem::path> unlisted;
  std::filesystem::recursive_directory_iterator entry(directory, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(error)) continue;
    const std::string name = entry->path().lexically_relative(directory).string();
    if (name != kManifestName && manifest.Find(name) == nullptr) unlisted.push_back(entry->path());
  }
  if (error) return SystemError("list", directory, error.value());
  for (const auto& path : unlisted) RETURN_IF_ERROR(RemoveTree(path));
  return absl::OkStatus();
}

// Returns whether an output has to be built (again). Errors of the system, such as too many open
// files or a device that fails, do not show that the stored output is damaged.
bool IsMissingOrDamaged(const absl::Status& status) {
  if (absl::IsNotFound(status)) return true;
  const bool damaged = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  return damaged && !IsSystemError(status);
}

// Returns whether a later attempt may continue from the files in `temporary`. It may not when the
// error shows that the input or the files themselves are at fault.
bool IsWorthKeeping(const std::filesystem::path& temporary, const absl::Status& status) {
  std::error_code error;
  return !absl::IsInvalidArgument(status) && !absl::IsFailedPrecondition(status) &&
         (!absl::IsDataLoss(status) || IsSystemError(status)) &&
         (std::filesystem::exists(temporary / kResumePointName, error) ||
          std::filesystem::exists(temporary / kManifestName, error));
}

// Loads the manifest of an output and verifies all its files. DATA_LOSS when it belongs to another
// output.
absl::StatusOr<Manifest> LoadVerifiedOutput(const std::filesystem::path& directory,
                                            const std::string& stage, const std::string& key) {
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(directory));
  if (manifest.kind != stage || manifest.key != key) {
    return absl::DataLossError(absl::StrCat(directory.string(), ": got ", manifest.kind, " ",
                                            manifest.key, ", expected ", stage, " ", key));
  }
  RETURN_IF_ERROR(manifest.VerifyAll(directory));
  return manifest;
}

}  // namespace

StageWriter::StageWriter(std::filesystem::path directory, std::string kind, std::string key,
                         const StageOptions& options)
    : directory_(std::move(directory)),
      options_(options),
      manifest_{.kind = std::move(kind), .key = std::move(key), .files = {}, .settings = {}} {}

void StageWriter::Add(const FileSummary& file, int64_t records, std::string_view subdirectory) {
  manifest_.files.push_back(MakeManifestEntry(file, records, subdirectory));
}

void StageWriter::Add(const std::vector<FileSummary>& files, int64_t records,
                      std::string_view subdirectory) {
  for (const FileSummary& file : files) Add(file, records, subdirectory);
}

absl::Status StageWriter::AddText(const std::string& name, std::string_view content,
                                  int64_t records) {
  ASSIGN_OR_RETURN(const ManifestEntry entry,
                   WriteFileForManifest(directory_ / name, content, records));
  manifest_.files.push_back(entry);
  return absl::OkStatus();
}

bool StageWriter::Has(std::string_view name) const {
  return manifest_.Find(name) != nullptr ||
         std::ranges::find(scratch_, name, &ManifestEntry::name) != scratch_.end();
}

void StageWriter::AddScratch(const FileSummary& file) {
  scratch_.push_back(MakeManifestEntry(file, 0));
}

const ManifestEntry* StageWriter::FindScratch(std::string_view name) const {
  const auto found = std::ranges::find(scratch_, name, &ManifestEntry::name);
  return found == scratch_.end() ? nullptr : &*found;
}

void StageWriter::DropScratch(std::string_view name) {
  std::erase_if(scratch_, [&](const ManifestEntry& entry) { return entry.name == name; });
  dropped_.push_back(directory_ / name);
}

absl::Status StageWriter::SaveResumePoint(ResumePoint point) {
  const ResumeRecord record = {manifest_.kind, manifest_.key,    manifest_.files,
                               scratch_,       std::move(point), num_resume_points_ + 1};
  RETURN_IF_ERROR(record.Save(directory_));
  ++num_resume_points_;
  worked_bytes_ = 0;
  // Only now: until the new point is on disk, an attempt would continue from the earlier one, which
  // needs these files.
  for (const auto& path : std::exchange(dropped_, {})) RETURN_IF_ERROR(RemoveTree(path));
  return absl::OkStatus();
}

absl::Status StageWriter::LoadResumePoint() {
  ASSIGN_OR_RETURN(ResumeRecord record, ResumeRecord::Load(directory_));
  if (record.stage != manifest_.kind || record.key != manifest_.key) {
    return absl::DataLossError(absl::StrCat((directory_ / kResumePointName).string(),
                                            ": got stage ", record.stage, " ", record.key,
                                            ", expected ", manifest_.kind, " ", manifest_.key));
  }
  for (const auto& files : {record.finished, record.scratch}) {
    for (const ManifestEntry& entry : files) RETURN_IF_ERROR(VerifyFile(directory_, entry));
  }
  manifest_.files = std::move(record.finished);
  scratch_ = std::move(record.scratch);
  resume_point_ = std::move(record.point);
  num_resume_points_ = record.number;
  resumed_ = true;
  return absl::OkStatus();
}

absl::Status StageWriter::Finish() const {
  // The manifest is written before other files are removed, among them the resume point: a crash in
  // between leaves a complete output instead of one that has to be built again.
  RETURN_IF_ERROR(manifest_.Save(directory_));
  return RemoveUnlisted(directory_, manifest_);
}

StageStore::StageStore(std::filesystem::path root, const StageOptions& options)
    : root_(std::move(root)), options_(options) {}

std::filesystem::path StageStore::DirectoryOf(std::string_view stage, std::string_view key) const {
  BRAID_CHECK(key.size() == 32) << key;
  return root_ / (std::string(stage) + "-" + std::string(key.substr(0, 16)));
}

absl::Status StageStore::Claim(const std::string& name, const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kBetweenChecks(100);
  std::unique_lock lock(mutex_);
  while (!claimed_.insert(name).second) {
    released_.wait_for(lock, kBetweenChecks);
    // `stop` may take other locks.
    lock.unlock();
    if (stop()) {
      return absl::CancelledError(absl::StrCat("asked to stop while another job builds ", name));
    }
    lock.lock();
  }
  return absl::OkStatus();
}

void StageStore::Release(const std::string& name) {
  const std::lock_guard lock(mutex_);
  claimed_.erase(name);
  released_.notify_all();
}

// Completes the output in `temporary`, up to the rename. A crash between the manifest and the
// rename leaves a complete directory, which is verified and used; otherwise an attempt with a valid
// resume point is continued; otherwise, or when the files turn out not to match the point, the
// directory is cleared and built from the beginning.
absl::Status StageStore::Fill(const std::string& stage, const std::string& key,
                              const std::filesystem::path& temporary, const Build& build) const {
  if (const auto complete = LoadVerifiedOutput(temporary, stage, key); complete.ok()) {
    return RemoveUnlisted(temporary, *complete);
  } else if (!IsMissingOrDamaged(complete.status())) {
    return complete.status();
  }
  StageWriter writer(temporary, stage, key, options_);
  absl::Status status = writer.LoadResumePoint();
  if (!status.ok() && !IsMissingOrDamaged(status)) return status;
  if (status.ok()) status = build(writer);
  if (!writer.resumed() || IsUnresumable(status)) {
    RETURN_IF_ERROR(RemoveTree(temporary));
    RETURN_IF_ERROR(MakeDirectories(temporary));
    writer = StageWriter(temporary, stage, key, options_);
    status = build(writer);
  }
  RETURN_IF_ERROR(status);
  return writer.Finish();
}

absl::StatusOr<StoredStage> StageStore::Make(const std::string& stage, const std::string& key,
                                             const std::filesystem::path& directory,
                                             const Build& build) {
  const std::filesystem::path temporary = directory.string() + ".tmp";
  absl::Status status = Fill(stage, key, temporary, build);
  if (status.ok()) status = PublishDirectory(temporary, directory);
  if (!status.ok()) {
    if (!IsWorthKeeping(temporary, status)) RemoveTree(temporary).IgnoreError();
    return status;
  }
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(directory));
  return StoredStage{directory, std::move(manifest), false};
}

absl::StatusOr<StoredStage> StageStore::Produce(const std::string& stage, const std::string& key,
                                                const Build& build,
                                                const std::function<bool()>& stop) {
  const std::filesystem::path directory = DirectoryOf(stage, key);
  const std::string name = directory.filename().string();
  RETURN_IF_ERROR(Claim(name, stop));
  const absl::Cleanup release = [&] { Release(name); };
  // Shared before the output is verified, so that no deletion removes it afterwards.
  auto use = std::make_shared<DirectoryUse>();
  if (!options_.home.empty()) {
    ASSIGN_OR_RETURN(*use, DirectoryUse::Share(options_.home, directory));
  }
  absl::StatusOr<Manifest> stored = LoadVerifiedOutput(directory, stage, key);
  if (stored.ok()) return StoredStage{directory, *std::move(stored), true, std::move(use)};
  // The stored output may be intact, and in use by a training run, although reading it failed.
  if (!IsMissingOrDamaged(stored.status())) return stored.status();
  RETURN_IF_ERROR(RemoveTree(directory));
  ASSIGN_OR_RETURN(StoredStage made, Make(stage, key, directory, build));
  made.use = std::move(use);
  return made;
}

}  // namespace braid
