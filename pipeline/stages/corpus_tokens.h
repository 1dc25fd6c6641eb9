// The tokens that a corpus of token files brings, from ingest to tokenize.
#ifndef BRAID_PIPELINE_STAGES_CORPUS_TOKENS_H_
#define BRAID_PIPELINE_STAGES_CORPUS_TOKENS_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/indexed_dataset.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Writes the ingest stage's tokens.bin and tokens.idx, whose sequence i is document i; writes
// nothing for a corpus of text.
class CorpusTokenWriter {
 public:
  // Continues after the synced prefix; starts from the beginning when `synced` is empty.
  // `vocab_size` is that of the tokenizer that made the tokens, 0 for a corpus of text.
  static absl::StatusOr<CorpusTokenWriter> Resume(const std::filesystem::path& directory,
                                                  int64_t vocab_size,
                                                  const DurablePrefixes& synced);
  // Appends the tokens of the next document.
  absl::Status Add(std::span<const int32_t> tokens);
  // Makes the documents so far durable and records their lengths in `synced`.
  absl::Status Sync(DurablePrefixes* synced);
  // Completes the files and adds them to the output of the stage.
  absl::Status Commit(StageWriter* stage);

 private:
  explicit CorpusTokenWriter(std::unique_ptr<IndexedDatasetWriter> file) : file_(std::move(file)) {}

  std::unique_ptr<IndexedDatasetWriter> file_;  // null for a corpus of text
};

// Returns the tokens in the output `ingest` of the ingest stage; nullopt for a corpus of text.
// DATA_LOSS if they are damaged or not one sequence for each of `num_documents` documents.
absl::StatusOr<std::optional<IndexedDataset>> OpenCorpusTokens(const std::filesystem::path& ingest,
                                                               int64_t num_documents);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_CORPUS_TOKENS_H_
