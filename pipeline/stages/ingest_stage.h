// ingest: records of the input files become numbered documents.
//
// Output: the document store (document_store.h); rejects.jsonl, one line
// {"file", "offset", "reason"} (and "detail", where a file is
// damaged) a rejected record; ingest.json, the counts.
#ifndef BRAID_PIPELINE_STAGES_INGEST_STAGE_H_
#define BRAID_PIPELINE_STAGES_INGEST_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"

namespace braid {

struct IngestSummary {
  int64_t num_records = 0;    // records read
  int64_t num_rejected = 0;   // of them, gave no document
  int64_t num_documents = 0;  // after splitting long ones
  int64_t num_text_bytes = 0;
  std::map<std::string, int64_t> rejects;  // by reason
};

// Of names, sizes and modification times of all input files and of the ingest
// settings. Errors: those of CorpusReader::Open.
absl::StatusOr<std::string> IngestKey(const v1::CorpusSpec& resolved);

// Units: bytes of input. Errors: those of CorpusReader; FAILED_PRECONDITION when
// an input file changes meanwhile.
absl::Status Ingest(const v1::CorpusSpec& resolved, const std::string& key,
                    const StageAdvance& advance, StageWriter* stage);

absl::StatusOr<IngestSummary> ReadIngestSummary(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_INGEST_STAGE_H_
