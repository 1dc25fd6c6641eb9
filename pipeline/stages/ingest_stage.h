// The stage ingest: turns the records of the input files into numbered documents.
//
// Output: the document store (document_store.h); rejects.jsonl, with one line {"file", "offset",
// "reason"} per rejected record, with "detail" for a damaged file and "id" for a record that has
// one; with ingest.embedding_field, embeddings.npy (corpus_vectors.h); of indexed datasets,
// tokens.bin and tokens.idx (corpus_tokens.h); ingest.json, the counts.
#ifndef BRAID_PIPELINE_STAGES_INGEST_STAGE_H_
#define BRAID_PIPELINE_STAGES_INGEST_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// The content of ingest.json.
struct IngestSummary {
  int64_t num_records = 0;    // records read
  int64_t num_rejected = 0;   // records that gave no document
  int64_t num_filtered = 0;   // records that ingest.where does not keep
  int64_t num_documents = 0;  // documents, after splitting long records
  int64_t num_text_bytes = 0;
  std::map<std::string, int64_t> rejects;  // by reason
  std::vector<std::string> notes;          // CorpusReader::Notes()
};

// Returns the key of the output: a hash of the names, sizes and modification times of all input
// files and of the ingest settings. Errors: those of CorpusReader::Open.
absl::StatusOr<std::string> IngestKey(const v1::CorpusSpec& resolved,
                                      const KeepListing& keep_listing = {});

// Runs the stage. Units of `progress`: bytes of input. Errors: those of CorpusReader;
// FAILED_PRECONDITION when an input file changes while it is read; CANCELLED.
absl::Status Ingest(const v1::CorpusSpec& resolved, const std::string& key,
                    const KeepListing& keep_listing, const ProgressCallback& progress,
                    StageWriter* stage);

// Reads ingest.json of the stage output in `directory`.
absl::StatusOr<IngestSummary> ReadIngestSummary(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_INGEST_STAGE_H_
