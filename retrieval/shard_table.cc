#include "retrieval/shard_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/manifest.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShards = 1000;

// Names of the files of an unsealed shard.
bool IsUnsealedFile(const fs::path& path) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "vectors.npy", "ids.npy", "centroids.npy", "lists.npy", "index.faiss"};
  std::string name = path.filename().string();
  if (name.ends_with(".tmp")) name.resize(name.size() - 4);
  return name == kManifestName || std::ranges::find(kNames, name) != kNames.end();
}

// Returns whether a directory belongs to an unsealed shard: it has only such files. Others are
// never removed.
bool IsUnsealedShard(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_directory(error) || !CheckShardName(entry.path().filename().string()).ok() ||
      fs::exists(entry.path() / kManifestName, error)) {
    return false;
  }
  const fs::directory_iterator files(entry.path(), error);
  return !error && std::all_of(begin(files), end(files), IsUnsealedFile);
}

}  // namespace

ShardTable::ShardTable(fs::path home) : home_(std::move(home)) {
  std::error_code error;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(home_, error)) {
    if (IsUnsealedShard(entry)) left.push_back(entry.path());
  }
  for (const fs::path& directory : left) fs::remove_all(directory, error);
}

bool ShardTable::IsSealed(const std::string& name) const {
  std::error_code error;
  return fs::exists(Directory(name) / kManifestName, error);
}

// Counts sealed shards of earlier processes, too.
size_t ShardTable::NumDirectories() const {
  std::error_code error;
  const fs::directory_iterator entries(home_, error);
  return error ? 0 : static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

absl::Status ShardTable::Create(const std::string& name, int32_t dimension,
                                const std::string& index) {
  RETURN_IF_ERROR(CheckShardName(name));
  const std::lock_guard lock(mutex_);
  if (entries_.contains(name) || IsSealed(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("shard ", name, " already exists; choose another name or drop it"));
  }
  if (const size_t shards = NumDirectories(); shards >= kMaxShards) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "got ", shards, " shards, expected fewer than ", kMaxShards, "; drop unused ones"));
  }
  auto entry = std::make_shared<Entry>();
  ASSIGN_OR_RETURN(entry->shard, NeighborShard::Create(Directory(name), dimension, index));
  entries_[name] = std::move(entry);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ShardTable::Entry>> ShardTable::EntryOf(const std::string& name) {
  RETURN_IF_ERROR(CheckShardName(name));
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(name); found != entries_.end()) return found->second;
  if (!IsSealed(name)) {
    return absl::NotFoundError(absl::StrCat("shard ", name, " does not exist; create it first"));
  }
  return entries_[name] = std::make_shared<Entry>();
}

absl::StatusOr<std::shared_ptr<NeighborShard>> ShardTable::Find(const std::string& name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, EntryOf(name));
  const std::lock_guard lock(entry->mutex);
  if (entry->shard == nullptr) {
    absl::StatusOr<std::unique_ptr<NeighborShard>> loaded = NeighborShard::Load(Directory(name));
    if (!loaded.ok()) {
      return absl::Status(loaded.status().code(),
                          absl::StrCat("shard ", name, ": ", loaded.status().message()));
    }
    entry->shard = *std::move(loaded);
  }
  return entry->shard;
}

absl::StatusOr<bool> ShardTable::Drop(const std::string& name) {
  const auto entry = EntryOf(name);
  if (absl::IsNotFound(entry.status())) return false;
  RETURN_IF_ERROR(entry.status());
  const std::lock_guard entry_lock((*entry)->mutex);
  {
    // Another call may have dropped the shard since, and a newer one may have its name.
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second != *entry) return false;
  }
  // As long as the entry is there, no shard of the name can be created.
  RETURN_IF_ERROR((*entry)->shard != nullptr ? (*entry)->shard->Drop()
                                             : NeighborShard::Remove(Directory(name)));
  const std::lock_guard lock(mutex_);
  entries_.erase(name);
  return true;
}

}  // namespace braid
