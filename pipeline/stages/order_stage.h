// order: the held-out split, and the order of the documents that train.
//
// Duplicates are gone and held-out documents are set aside first, so the
// similarity walk runs on the neighbour graph of training documents alone.
// Documents that nearly repeat a held-out one (heldout_overlap.h) are on neither
// side, unless deduplicate.disabled.
//
// Output (document numbers are those of ingest): order.npy uint32, training
// documents in order; path_starts.npy uint32, positions in it at which the walk
// began anew; heldout.npy uint32, held-out documents, ascending. What is on
// neither side: heldout_overlaps.npy uint32 [m, 2], columns document, held-out
// document, ascending; heldout_overlap_similarities.npy float32 [m, 2], columns
// cosine (0: not in each other's neighbour lists), jaccard; heldout_overlaps.json:
// counts, also by domain, and examples with ids.
#ifndef BRAID_PIPELINE_STAGES_ORDER_STAGE_H_
#define BRAID_PIPELINE_STAGES_ORDER_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/ordering/heldout_overlap.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"

namespace braid {

std::string OrderKey(const v1::CorpusSpec& resolved, const std::string& deduplicate_key);

// `keep` [n]: output of deduplicate; embed_directory: output of embed, read only when
// order_partitions asks for parts. Units: documents.
// Errors: FAILED_PRECONDITION when no document is left to train on; CANCELLED.
absl::Status Order(const DocumentStore& documents, const StoredNeighbors& neighbors,
                   std::span<const uint8_t> keep, const std::filesystem::path& embed_directory,
                   const v1::CorpusSpec& resolved, const StageAdvance& advance, StageWriter* stage);

// The stored order, in memory: 4 bytes a document.
struct StoredOrder {
  DocumentOrder training;
  std::vector<uint32_t> heldout;
  std::vector<HeldoutOverlap> overlaps;  // ascending by document

  static absl::StatusOr<StoredOrder> Read(const std::filesystem::path& directory);
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_ORDER_STAGE_H_
