// neighbors: the k nearest documents of every document.
//
// Output: neighbors.npy [n, k] uint32 and scores.npy [n, k] float32 (cosine),
// descending, padded where there are fewer; neighbors.json: k, the index used
// and its measured recall@k. A killed stage keeps the index and the rows of whole
// chunks (resume_point.h); a stop request is answered within two seconds.
#ifndef BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_
#define BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "formats/npy.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// The neighbours found do not depend on neighbors.addresses, so neither does the key; but for
// more than 20 million documents "auto" means another index with them.
std::string NeighborKey(const v1::CorpusSpec& resolved, const std::string& embed_key,
                        int64_t num_documents);

// `embed_directory`: output of the embed stage. Units: documents. With neighbors.addresses the
// servers there search, a shard each (sharded_search.h), which is dropped once all
// neighbours are stored; after an error or a kill the shards stay for the next attempt.
absl::Status FindNeighbors(const std::filesystem::path& embed_directory,
                           const v1::CorpusSpec& resolved, const StageAdvance& advance,
                           StageWriter* stage);

// The stored graph, memory-mapped.
struct StoredNeighbors {
  NpyArray<uint32_t> ids;  // [n, k]
  NpyArray<float> scores;  // [n, k]
  double recall_at_k = 0;
  int32_t k = 0;

  static absl::StatusOr<StoredNeighbors> Open(const std::filesystem::path& directory);
  int64_t num_documents() const { return ids.num_rows(); }
  NeighborLists lists() const { return {k, ids.values(), scores.values()}; }
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_NEIGHBOR_STAGE_H_
