// The stage tokenize: encodes every document as one sequence of token ids, or copies the tokens
// that the corpus brings.
//
// Output: tokenizer.model; tokens.bin/.idx, a Megatron indexed dataset whose sequence i is document
// i, without EOS.
#ifndef BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_
#define BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "formats/tokenizer.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the key of the output. It depends on the content of a given tokenizer, not on its path.
absl::StatusOr<std::string> TokenizeKey(const v1::CorpusSpec& resolved,
                                        const std::string& ingest_key);

// Returns the token that every document begins with; nullopt for none. INVALID_ARGUMENT for
// begin_with_bos with a tokenizer that has no BOS token.
absl::StatusOr<std::optional<int32_t>> FirstToken(const v1::TokenizerConfig& config,
                                                  const Tokenizer& tokenizer);

// Returns the default vocabulary size for a training sample: bytes / 256 rounded down to a power of
// two, but at least 512 and at most 32000. Training uses a smaller or larger one if the sample
// requires it.
int32_t AutomaticVocabSize(int64_t sample_bytes);

// Returns random documents with about `sample_bytes` of text (all documents if they have less), in
// ascending order, for training a tokenizer.
std::vector<int64_t> SampleDocuments(const DocumentStore& documents, int64_t sample_bytes,
                                     uint64_t seed);

// Runs the stage on the output `ingest` of the ingest stage, whose documents are `documents`. Units
// of `progress`: documents. Errors: those of the tokenizer and of OpenCorpusTokens(); CANCELLED.
absl::Status Tokenize(const DocumentStore& documents, const std::filesystem::path& ingest,
                      const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                      StageWriter* stage);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_TOKENIZE_STAGE_H_
