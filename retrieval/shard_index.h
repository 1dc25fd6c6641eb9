// What a shard's vectors are kept and searched in. A shard (neighbor_shard.h) has one and
// sees to locking, validation and its life.
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

// Requires all vectors to be unit vectors or zero, of the index's dimension. Searches may
// run at the same time as each other, changes not.
class ShardIndex {
 public:
  virtual ~ShardIndex() = default;

  virtual int64_t num_vectors() const = 0;
  // Lists it is divided into; 0 when it is not, and the only choice of probes then.
  virtual int64_t num_lists() const = 0;
  virtual int64_t num_centroids() const { return 0; }

  // Centroids `first`, first + 1, ... [n, d]; those set already are replaced.
  virtual absl::Status SetCentroids(int64_t first, std::span<const float> values) = 0;
  // FAILED_PRECONDITION unless it is still to learn something.
  virtual absl::Status Train(std::span<const float> sample) = 0;
  // ids: [n], ascending and above all before. FAILED_PRECONDITION before training.
  virtual absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) = 0;
  // num_probes 0: all vectors. FAILED_PRECONDITION where there is nothing to search yet.
  virtual absl::Status Search(std::span<const float> queries, int32_t k, int64_t num_probes,
                              SearchOutput output, const StopCheck& check) const = 0;
  // Writes what is not on disk yet. At most once; vectors can then not be added.
  virtual absl::StatusOr<std::vector<ManifestEntry>> Seal() = 0;
};

// "Flat" and "IVF<lists>,Flat": vectors.npy, ids.npy, centroids.npy and lists.npy, appended
// to as vectors come, memory-mapped once sealed, and searched by neighbor_search.h and
// list_search.h. So memory does not grow with the vectors, but for d + 4 bytes each and
// their lists at the first search through them.
absl::StatusOr<std::unique_ptr<ShardIndex>> CreateListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists);
// Requires the files to be as Seal() listed them.
absl::StatusOr<std::unique_ptr<ShardIndex>> LoadListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists);

// Any other FAISS index string: in memory, index.faiss once sealed. Scores are FAISS's.
absl::StatusOr<std::unique_ptr<ShardIndex>> CreateFaissShardIndex(
    const std::filesystem::path& directory, int32_t d, const std::string& factory);
// DATA_LOSS unless the file is as Seal() listed it in `manifest`.
absl::StatusOr<std::unique_ptr<ShardIndex>> LoadFaissShardIndex(
    const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_SHARD_INDEX_H_
