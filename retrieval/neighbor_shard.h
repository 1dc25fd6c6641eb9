// One shard of the vectors of a corpus and its life cycle: created, given centroids or trained,
// filled, sealed to disk, dropped.
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
#include "retrieval/shard_index.h"

namespace braid {

// Returns INVALID_ARGUMENT unless `name` has 1 to 100 ASCII letters, digits, '-' and '_', so that
// it can name a directory without leaving the parent.
absl::Status CheckShardName(std::string_view name);

// Thread-safe: searches run concurrently, changes one by one. The status codes are those of
// neighbor_service.h.
class NeighborShard {
 public:
  // Creates `directory`, which the shard then owns.
  static absl::StatusOr<std::unique_ptr<NeighborShard>> Create(
      const std::filesystem::path& directory, int32_t dimension, const std::string& index);
  // Opens the directory of a sealed shard. Every byte is compared with its checksum before it is
  // parsed. NOT_FOUND if there is no manifest, DATA_LOSS if a file is damaged.
  static absl::StatusOr<std::unique_ptr<NeighborShard>> Load(
      const std::filesystem::path& directory);

  struct Description {
    int32_t dimension;
    std::string index;
    int64_t num_vectors, num_centroids;
    bool sealed;
  };
  Description Describe() const;

  // Sets centroids from `first` on; values: [n, dimension]. Returns the number of centroids now
  // set.
  absl::StatusOr<int64_t> SetCentroids(int64_t first, std::span<const float> values);
  // Trains the index; vectors: [n, dimension].
  absl::Status Train(std::span<const float> vectors);
  // Adds vectors and returns how many the shard now has. ids: [n], ascending, not negative and
  // above all earlier ones. `position` is how many vectors the shard should have before; if it has
  // these very vectors from that position on, they are not added again, so a call can be repeated.
  absl::StatusOr<int64_t> Add(std::span<const int64_t> ids, std::span<const float> vectors,
                              std::optional<int64_t> position = std::nullopt);

  struct Found {
    std::vector<int64_t> ids;   // [queries, k], -1 where fewer exist
    std::vector<float> scores;  // [queries, k]
  };
  // Searches `num_probes` lists; 0: all vectors. Errors also: those of `check`.
  absl::StatusOr<Found> Search(std::span<const float> queries, int32_t k, int64_t num_probes = 0,
                               const StopCheck& check = nullptr) const;

  // Writes the files that are not complete yet, then manifest.json; does nothing if sealed already.
  // Returns the path of the manifest.
  absl::StatusOr<std::filesystem::path> Seal();

  // Closes all files and removes the directory; every later call but this one returns NOT_FOUND.
  absl::Status Drop();
  // Removes the directory of a shard that is not open, even a damaged one.
  static absl::Status Remove(const std::filesystem::path& directory);

 private:
  NeighborShard(std::filesystem::path directory, int32_t dimension, std::string index)
      : directory_(std::move(directory)), dimension_(dimension), description_(std::move(index)) {}

  // Requires mutex_.
  absl::Status CheckThere() const;
  absl::Status CheckOpen(std::string_view change) const;
  absl::Status CheckVectors(std::span<const float> vectors) const;
  absl::Status CheckIds(std::span<const int64_t> ids) const;
  absl::StatusOr<bool> HoldsAlready(std::span<const int64_t> ids, int64_t position) const;

  const std::filesystem::path directory_;
  const int32_t dimension_;
  const std::string description_;      // the index string
  mutable std::shared_mutex mutex_;    // guards all below
  std::unique_ptr<ShardIndex> index_;  // null once dropped
  std::vector<int64_t> ids_;           // empty once sealed
  bool sealed_ = false;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SHARD_H_
