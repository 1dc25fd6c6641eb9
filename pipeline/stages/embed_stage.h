// The stage embed: computes one L2-normalized vector per document.
//
// Output:
//   embeddings.npy [n, d] float32
//   document_frequencies.npy   of the hashing embedder, to embed further texts in the same way
//   embedder.json              of the other embedders: fingerprint, number of truncated documents
#ifndef BRAID_PIPELINE_STAGES_EMBED_STAGE_H_
#define BRAID_PIPELINE_STAGES_EMBED_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "formats/npy.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"
#include "retrieval/parallel_for.h"  // StopCheck

namespace braid {

// Returns the default dimension of hashed vectors. A larger dimension distinguishes documents
// better (half the dimension costs a sixth of the similarity of adjacent documents in the order),
// but the search for neighbors takes time proportional to n^2 d.
int32_t AutomaticDimension(int64_t num_documents);

// The embedder of a job, determined before any document is embedded.
struct EmbedPlan {
  std::string key;  // names the output in the store
  // The fingerprint of an embedder that its settings do not fully determine, else "".
  std::string fingerprint;
  // Embedder::preferred_batch_texts() and group_texts().
  int64_t batch_texts = 0;
  int64_t group_texts = 0;
};

// Determines the key of the output. The key contains the fingerprint of a remote embedder, not its
// addresses, and that of a model, not its directory; therefore this function connects to the
// embedding service, waiting for a replica, or reads the model.
// Errors: UNAVAILABLE when no replica answers; those of ContrieverDirectory and of `progress`.
absl::StatusOr<EmbedPlan> PlanEmbedding(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key,
                                        const ProgressCallback& progress);

// Checks the files of a model that the settings name, without reading weights. Errors: those of
// ContrieverDirectory and StaticEmbedder.
absl::Status CheckEmbedderFiles(const v1::EmbedderConfig& config);

// Runs the stage. Units of `progress`: documents. Errors: those of the embedder;
// FAILED_PRECONDITION, with both fingerprints, when the embedder has changed since the plan was
// made; CANCELLED.
absl::Status Embed(const DocumentStore& documents, const v1::EmbedderConfig& config,
                   const EmbedPlan& plan, const ProgressCallback& progress, StageWriter* stage);

// Returns the cosine of two rows of embeddings.npy; 0 when one of them is zero.
double CosineOfRows(const NpyArray<float>& embeddings, uint32_t a, uint32_t b);

// Reads the number of documents that the embedder truncated from the stage output in `directory`.
absl::StatusOr<int64_t> ReadNumTruncated(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_EMBED_STAGE_H_
