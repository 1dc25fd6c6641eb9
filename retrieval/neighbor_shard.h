// One index shard and its life: created, trained, filled, sealed to disk.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SHARD_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SHARD_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/manifest.h"
#include "retrieval/vector_index.h"

namespace braid {

// INVALID_ARGUMENT unless 1 to 100 letters, digits, '-' and '_' of ASCII, so that a
// name can be a directory's without leaving its parent.
absl::Status CheckShardName(std::string_view name);

// Thread-safe; searches run at the same time, changes one by one. The status codes
// are those of neighbor_service.h.
class NeighborShard {
 public:
  static absl::StatusOr<std::unique_ptr<NeighborShard>> Create(int32_t dimension,
                                                               const std::string& index);
  // A sealed shard's directory. NOT_FOUND when it holds no manifest.
  static absl::StatusOr<std::unique_ptr<NeighborShard>> Load(
      const std::filesystem::path& directory);

  // vectors: [n, dimension].
  absl::Status Train(std::span<const float> vectors);
  // ids: [n], not negative. Gives the number of vectors now in the shard.
  absl::StatusOr<int64_t> Add(std::span<const int64_t> ids, std::span<const float> vectors);

  struct Found {
    std::vector<int64_t> ids;   // [queries, k], -1 where fewer exist
    std::vector<float> scores;  // [queries, k]
  };
  absl::StatusOr<Found> Search(std::span<const float> queries, int32_t k) const;

  // Writes index.faiss, then manifest.json, into `directory`; nothing if sealed
  // already. Gives the entry of index.faiss.
  absl::StatusOr<ManifestEntry> Seal(const std::filesystem::path& directory);

 private:
  NeighborShard(std::unique_ptr<VectorIndex> index, std::string description)
      : index_(std::move(index)), description_(std::move(description)) {}

  // Requires: mutex_ held.
  absl::Status CheckVectors(std::span<const float> vectors) const;
  absl::Status CheckNotSealed(std::string_view change) const;

  mutable std::shared_mutex mutex_;  // guards all below
  std::unique_ptr<VectorIndex> index_;
  std::string description_;  // the index string
  bool was_trained_ = false;
  std::optional<ManifestEntry> sealed_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SHARD_H_
