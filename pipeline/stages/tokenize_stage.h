// tokenize: every document becomes one sequence of token ids.
//
// Output: tokenizer.model; tokens.bin/.idx, a Megatron indexed dataset with
// sequence i = document i, without EOS.
#ifndef BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_
#define BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_advance.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// A given tokenizer counts by its content, not by its path.
absl::StatusOr<std::string> TokenizeKey(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key);

// The default vocabulary for a training sample of that size: bytes / 256 rounded
// down to a power of two, within 512 and 32000.
int32_t AutomaticVocabSize(int64_t sample_bytes);

// Documents for training a tokenizer, drawn at random up to about
// `sample_bytes` of text (all of them if they fit), ascending.
std::vector<int64_t> SampleDocuments(const DocumentStore& documents, int64_t sample_bytes,
                                     uint64_t seed);

// Units: documents. Errors: those of the tokenizer; CANCELLED.
absl::Status Tokenize(const DocumentStore& documents, const v1::CorpusSpec& resolved,
                      const StageAdvance& advance, StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_
