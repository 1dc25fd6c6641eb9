// embed: one L2-normalised vector a document.
//
// Output: embeddings.npy [n, d] float32; for the hashing embedder also
// document_frequencies.npy, with which further texts can be embedded alike; for the others
// embedder.json, with the fingerprint and how many documents are longer than the embedder
// reads.
#ifndef BRAID_PIPELINE_STAGES_EMBED_STAGE_H_
#define BRAID_PIPELINE_STAGES_EMBED_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"
#include "retrieval/parallel_for.h"  // StopCheck

namespace braid {

// Dimensions of hashed vectors where the settings leave it open. More of them tell
// documents apart better (half as many cost a sixth of the similarity of neighbours in
// the order), but searching neighbours takes time by n^2 d.
int32_t AutomaticDimension(int64_t num_documents);

// What will embed, found out before anything is.
struct EmbedPlan {
  std::string key;  // of the stage
  // Of the embedder, where the settings do not say it all.
  std::string fingerprint;
  // As Embedder::preferred_batch_texts().
  int64_t batch_texts = 0;
};

// A remote embedder counts by the fingerprint of its vectors, not by its
// addresses; so this connects to it, and waits for a replica. Errors: UNAVAILABLE when none
// comes, those of `check`. So does a model, not by its directory; so this reads it. Errors:
// those of ContrieverDirectory.
absl::StatusOr<EmbedPlan> PlanEmbedding(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key,
                                        const StopCheck& check = nullptr);

// Units: documents. Errors: those of the embedder; FAILED_PRECONDITION, with both
// fingerprints, when it is not the one of the plan any more; CANCELLED.
absl::Status Embed(const DocumentStore& documents, const v1::EmbedderConfig& config,
                   const EmbedPlan& plan, const StageAdvance& advance, StageWriter* stage);

// Of a finished stage in `directory`: documents longer than its embedder reads.
absl::StatusOr<int64_t> ReadNumTruncated(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_EMBED_STAGE_H_
