#include "pipeline/stage_store.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/check.h"
#include "formats/file_error.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

absl::Status RemoveTree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? SystemError("cannot remove", path, error.value()) : absl::OkStatus();
}

}  // namespace

StageWriter::StageWriter(std::filesystem::path directory, std::string kind, std::string key)
    : directory_(std::move(directory)),
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
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(directory_ / name));
  RETURN_IF_ERROR(file->Append(content));
  ASSIGN_OR_RETURN(const FileSummary summary, file->Commit());
  Add(summary, records);
  return absl::OkStatus();
}

absl::Status StageWriter::SaveManifest() const { return manifest_.Save(directory_); }

StageStore::StageStore(std::filesystem::path root) : root_(std::move(root)) {}

std::filesystem::path StageStore::DirectoryOf(std::string_view stage, std::string_view key) const {
  BRAID_CHECK(key.size() == 32) << key;
  return root_ / (std::string(stage) + "-" + std::string(key.substr(0, 16)));
}

std::shared_ptr<std::mutex> StageStore::LockOf(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<std::mutex> found = locks_[name].lock();
  if (found == nullptr) locks_[name] = found = std::make_shared<std::mutex>();
  return found;
}

absl::StatusOr<StoredStage> StageStore::Reuse(const std::filesystem::path& directory,
                                              const std::string& key) const {
  ASSIGN_OR_RETURN(Manifest manifest, LoadVerifiedManifest(directory));
  if (manifest.key != key) {
    return absl::DataLossError(
        absl::StrCat(directory.string(), ": key ", manifest.key, ", expected ", key));
  }
  return StoredStage{directory, std::move(manifest), true};
}

absl::StatusOr<StoredStage> StageStore::Make(const std::string& stage, const std::string& key,
                                             const std::filesystem::path& directory,
                                             const Build& build) {
  const std::filesystem::path temporary = directory.string() + ".tmp";
  RETURN_IF_ERROR(RemoveTree(temporary));
  RETURN_IF_ERROR(MakeDirectories(temporary));
  StageWriter writer(temporary, stage, key);
  absl::Status status = build(writer);
  if (status.ok()) status = writer.SaveManifest();
  if (status.ok()) status = PublishDirectory(temporary, directory);
  if (!status.ok()) {
    RemoveTree(temporary).IgnoreError();
    return status;
  }
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(directory));
  return StoredStage{directory, std::move(manifest), false};
}

absl::StatusOr<StoredStage> StageStore::Produce(const std::string& stage, const std::string& key,
                                                const Build& build) {
  const std::filesystem::path directory = DirectoryOf(stage, key);
  const std::shared_ptr<std::mutex> building = LockOf(directory.filename().string());
  std::lock_guard lock(*building);
  absl::StatusOr<StoredStage> stored = Reuse(directory, key);
  if (stored.ok()) return stored;
  // Any other error, such as too many open files, says nothing about what is there,
  // and a training run may be reading it.
  const absl::Status& status = stored.status();
  const bool missing_or_damaged =
      absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  if (!missing_or_damaged) return stored;
  RETURN_IF_ERROR(RemoveTree(directory));
  return Make(stage, key, directory, build);
}

}  // namespace braid
