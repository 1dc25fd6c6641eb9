// The stage neighbors: finds the k nearest documents of every document.
//
// Output:
//   neighbors.npy [n, k] uint32   document numbers, by descending score, padded at the end
//   scores.npy [n, k] float32     cosines
//   neighbors.json                k, the index and its measured recall@k
// An interrupted stage keeps the index and the rows of complete chunks (resume_point.h). It reacts
// to a request to stop within two seconds.
#ifndef BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_
#define BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "formats/npy.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the key of the output. The neighbors do not depend on neighbors.addresses, so the key
// does not either, except that above 20 million documents the index "auto" means a different index
// with addresses.
std::string NeighborKey(const v1::CorpusSpec& resolved, const std::string& embed_key,
                        int64_t num_documents);

// Runs the stage on the output of the stage embed in `embed_directory`. Units of `progress`:
// documents. With neighbors.addresses, each server searches one shard (sharded_search.h); the
// shards are dropped when all neighbors are stored, and kept for the next attempt after an error or
// a kill.
absl::Status FindNeighbors(const std::filesystem::path& embed_directory,
                           const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                           StageWriter* stage);

// The stored neighbor graph, memory-mapped.
struct StoredNeighbors {
  NpyArray<uint32_t> ids;  // [n, k]
  NpyArray<float> scores;  // [n, k]
  double recall_at_k = 0;
  int32_t k = 0;

  // Errors: NOT_FOUND for a missing file; DATA_LOSS when the files are inconsistent.
  static absl::StatusOr<StoredNeighbors> Open(const std::filesystem::path& directory);
  int64_t num_documents() const { return ids.num_rows(); }
  NeighborLists lists() const { return {k, ids.values(), scores.values()}; }
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_
