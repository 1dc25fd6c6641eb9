// The index of a shard's vectors. A shard (neighbor_shard.h) has one and is responsible for
// locking, validation and life cycle.
#ifndef BRAID_RETRIEVAL_SHARD_INDEX_H_
#define BRAID_RETRIEVAL_SHARD_INDEX_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/manifest.h"
#include "retrieval/parallel_for.h"
#include "retrieval/vector_index.h"

namespace braid {

// Requires all vectors to be unit vectors or zero and of the dimension of the index. Searches may
// run concurrently, changes may not.
class ShardIndex {
 public:
  virtual ~ShardIndex() = default;

  virtual int64_t num_vectors() const = 0;
  // Returns the number of lists; 0 for an index without lists, which can only be searched
  // completely.
  virtual int64_t num_lists() const = 0;
  virtual int64_t num_centroids() const { return 0; }

  // Sets centroids `first`, first + 1, ... [n, d]; existing ones are replaced.
  virtual absl::Status SetCentroids(int64_t first, std::span<const float> values) = 0;
  // Trains the index. FAILED_PRECONDITION unless it still needs training.
  virtual absl::Status Train(std::span<const float> sample) = 0;
  // Adds vectors; ids: [n], ascending and above all earlier ones. FAILED_PRECONDITION before
  // training.
  virtual absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) = 0;
  // Searches; num_probes 0: all vectors. FAILED_PRECONDITION while there is nothing to search.
  virtual absl::Status Search(std::span<const float> queries, int32_t k, int64_t num_probes,
                              SearchOutput output, const StopCheck& check) const = 0;
  // Writes what is not on disk yet. At most once; no vectors can be added afterwards.
  virtual absl::StatusOr<std::vector<ManifestEntry>> Seal() = 0;
};

// Create and open an index "Flat" or "IVF<lists>,Flat": vectors.npy, ids.npy, centroids.npy and
// lists.npy, to which vectors are appended as they arrive, memory-mapped once sealed, and searched
// by neighbor_search.h and list_search.h. So memory does not grow with the vectors, except for d +
// 4 bytes each and their lists at the first search through lists.
absl::StatusOr<std::unique_ptr<ShardIndex>> CreateListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists);
// Requires the files to match the entries returned by Seal().
absl::StatusOr<std::unique_ptr<ShardIndex>> LoadListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists);

// Create and open an index for any other FAISS index string: in memory, index.faiss once sealed.
// Scores are those of FAISS.
absl::StatusOr<std::unique_ptr<ShardIndex>> CreateFaissShardIndex(
    const std::filesystem::path& directory, int32_t d, const std::string& factory);
// DATA_LOSS unless the file matches its entry in `manifest`.
absl::StatusOr<std::unique_ptr<ShardIndex>> LoadFaissShardIndex(
    const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_SHARD_INDEX_H_
