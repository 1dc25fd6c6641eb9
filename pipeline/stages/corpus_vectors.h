// The embeddings that a corpus brings (ingest.embedding_field): ingest stores them as
// embeddings.npy [n, d] float32, as the records have them, and the embed stage normalizes them.
#ifndef BRAID_PIPELINE_STAGES_CORPUS_VECTORS_H_
#define BRAID_PIPELINE_STAGES_CORPUS_VECTORS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/npy.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Writes the ingest stage's embeddings.npy; writes nothing when no document has a vector.
class CorpusVectorWriter {
 public:
  // Continues after the synced prefix; starts from the beginning when `synced` is empty.
  // `dimension` is that of the vectors so far, 0 if there are none.
  static absl::StatusOr<CorpusVectorWriter> Resume(const std::filesystem::path& directory,
                                                   int64_t dimension,
                                                   const DurablePrefixes& synced);
  // Appends a vector, which has the dimension of those before.
  absl::Status Add(std::span<const float> vector);
  // Makes the vectors so far durable and records their length in `synced`.
  absl::Status Sync(DurablePrefixes* synced);
  // Completes the file and adds it to the output of the stage.
  absl::Status Commit(StageWriter* stage);

 private:
  explicit CorpusVectorWriter(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path directory_;
  std::optional<NpyWriter<float>> file_;  // created by the first vector
};

// The embed stage of a corpus that brings its embeddings: writes embeddings.npy, the vectors in
// `ingest` with norm 1. Errors: DATA_LOSS if they are not one finite vector that is not zero for
// each document; CANCELLED.
absl::Status CopyCorpusVectors(const DocumentStore& documents, const std::filesystem::path& ingest,
                               const ProgressCallback& progress, StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_CORPUS_VECTORS_H_
