// The shards of one home by name: those in memory, and sealed ones on disk.
#ifndef BRAID_RETRIEVAL_SHARD_TABLE_H_
#define BRAID_RETRIEVAL_SHARD_TABLE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/neighbor_shard.h"

namespace braid {

// Thread-safe: reading or removing a shard blocks only calls that name it.
class ShardTable {
 public:
  // Removes the files that unsealed shards of an earlier process left in `home`.
  explicit ShardTable(std::filesystem::path home);

  // Creates a shard. ALREADY_EXISTS for a name in use, RESOURCE_EXHAUSTED above 1,000 shards;
  // errors of NeighborShard::Create.
  absl::Status Create(const std::string& name, int32_t dimension, const std::string& index);
  // Returns a shard; a sealed one is verified and read at its first use. NOT_FOUND; errors of
  // NeighborShard::Load.
  absl::StatusOr<std::shared_ptr<NeighborShard>> Find(const std::string& name);
  // Removes a shard; returns whether there was one, even a damaged one. Errors of the file system.
  absl::StatusOr<bool> Drop(const std::string& name);

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<NeighborShard> shard;  // guarded by mutex; null while not read
  };

  std::filesystem::path Directory(const std::string& name) const { return home_ / name; }
  bool IsSealed(const std::string& name) const;
  size_t NumDirectories() const;
  absl::StatusOr<std::shared_ptr<Entry>> EntryOf(const std::string& name);

  const std::filesystem::path home_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_SHARD_TABLE_H_
