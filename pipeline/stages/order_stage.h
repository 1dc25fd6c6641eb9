// The stage order: makes the held-out split and orders the training documents.
//
// Duplicates and held-out documents are removed first, so the similarity walk sees the neighbor
// graph of the training documents alone. Documents that nearly repeat a held-out one
// (heldout_overlap.h) or share most of their text with it (heldout_containment.h) are on neither
// side of the split, unless deduplicate.disabled is set.
//
// Output (documents are numbered as by ingest):
//   order.npy uint32              training documents in order
//   path_starts.npy uint32        positions in order.npy at which the walk restarted
//   heldout.npy uint32            held-out documents, ascending
//   heldout_overlaps.npy [m, 2] uint32   document, held-out document; ascending
//   heldout_overlap_similarities.npy [m, 3] float32   cosine of the embeddings, Jaccard
//                                 similarity, containment (0: not the reason)
//   heldout_runs.npy [h, 2] int64   13-word runs of each held-out document, and those that a
//                                 training document has
//   heldout_overlaps.json         counts, also by domain, and examples with ids
#ifndef BRAID_PIPELINE_STAGES_ORDER_STAGE_H_
#define BRAID_PIPELINE_STAGES_ORDER_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/ordering/heldout_containment.h"
#include "pipeline/ordering/heldout_overlap.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the key of the output.
std::string OrderKey(const v1::CorpusSpec& resolved, const std::string& deduplicate_key);

// Runs the stage. `keep` [n] is the output of the stage deduplicate; `embed_directory`, the output
// of the stage embed, is read only for overlaps and when the graph is ordered in several parts.
// Units of `progress`: documents. Errors: FAILED_PRECONDITION when no training document remains;
// CANCELLED.
absl::Status Order(const DocumentStore& documents, const StoredNeighbors& neighbors,
                   std::span<const uint8_t> keep, const std::filesystem::path& embed_directory,
                   const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                   StageWriter* stage);

// The stored order, read into memory: 4 bytes per document.
struct StoredOrder {
  DocumentOrder training;
  std::vector<uint32_t> heldout;
  std::vector<HeldoutOverlap> overlaps;  // ascending by document
  std::vector<RunShare> heldout_runs;    // by position in `heldout`

  // Reads the output of the stage. Errors: NOT_FOUND for a missing file; DATA_LOSS when a file is
  // damaged or the shapes are inconsistent.
  static absl::StatusOr<StoredOrder> Read(const std::filesystem::path& directory);
};

// The shared runs of all held-out documents.
struct HeldoutResidue {
  int64_t num_documents = 0;  // held-out documents of 13 words or more
  int64_t num_with_shared = 0;
  int64_t num_mostly_shared = 0;  // more than half of the runs of the document
  int64_t num_runs = 0;
  int64_t num_shared = 0;
  double share() const;  // num_shared / num_runs; 0 without runs
};
// Adds up the shared runs of held-out documents.
HeldoutResidue SumRuns(std::span<const RunShare> shares);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_ORDER_STAGE_H_
