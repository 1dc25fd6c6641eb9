// The stage deduplicate: decides which documents are kept (deduplicate.h).
//
// Output:
//   keep.npy [n] uint8                      1 for a document that is kept, else 0
//   duplicate_pairs.npy [m, 3] uint32       removed, kept instead, exact (0 or 1); ascending
//   duplicate_similarities.npy [m, 2] float32  cosine of the embeddings and Jaccard similarity of
//                                           the two documents of each pair
//   duplicates.json                         counts, also by domain, and examples with ids
// and, with decontaminate.paths, that of decontamination.h.
#ifndef BRAID_PIPELINE_STAGES_DEDUPLICATE_STAGE_H_
#define BRAID_PIPELINE_STAGES_DEDUPLICATE_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "formats/npy.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/stages/neighbor_stage.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the key of the output. Errors: those of AddDecontamination().
absl::StatusOr<std::string> DeduplicateKey(const v1::CorpusSpec& resolved,
                                           const std::string& neighbor_key);

// Runs the stage. `embed_directory` is the output of the stage embed. Units of `progress`:
// documents. Errors: those of Decontaminate(); CANCELLED.
absl::Status Deduplicate(const DocumentStore& documents, const StoredNeighbors& neighbors,
                         const std::filesystem::path& embed_directory,
                         const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                         StageWriter* stage);

// The stored pairs of duplicates, memory-mapped.
class StoredDuplicates {
 public:
  // Maps the output of the stage. Errors: NOT_FOUND for a missing file; DATA_LOSS when a file is
  // damaged or the shapes are inconsistent.
  static absl::StatusOr<StoredDuplicates> Open(const std::filesystem::path& directory);

  // Returns the pair of a removed document, nullopt for a document that was kept. O(log m).
  std::optional<DuplicatePair> Find(uint32_t document) const;
  // Returns whether all document numbers are below `num_documents`.
  bool AllBelow(int64_t num_documents) const;
  int64_t num_exact() const;
  int64_t num_near() const { return pairs_.num_rows() - num_exact(); }

 private:
  StoredDuplicates(NpyArray<uint32_t> pairs, NpyArray<float> similarities)
      : pairs_(std::move(pairs)), similarities_(std::move(similarities)) {}

  NpyArray<uint32_t> pairs_;      // [m, 3]
  NpyArray<float> similarities_;  // [m, 2]
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_DEDUPLICATE_STAGE_H_
