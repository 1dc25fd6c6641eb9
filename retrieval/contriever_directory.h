// A directory with a BERT encoder in Hugging Face layout, opened and checked: config.json,
// vocab.txt, tokenizer_config.json if present, and the weights. Does not use a tensor library, so
// every program can compute the fingerprint.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_
#define BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"
#include "retrieval/contriever_weights.h"
#include "retrieval/wordpiece_tokenizer.h"

namespace braid {

// The contents of the directory.
struct ContrieverDirectory {
  ContrieverConfig config;
  WordPieceTokenizer tokenizer;
  ContrieverWeights weights;
  // Maximum tokens of a text that are embedded, including [CLS] and [SEP].
  int32_t max_tokens;

  // Opens a directory. `max_tokens` 0 means all positions of the model. Errors: those of the three
  // readers; INVALID_ARGUMENT for max_tokens out of range and for a vocabulary with more pieces
  // than the model.
  static absl::StatusOr<ContrieverDirectory> Open(const std::filesystem::path& directory,
                                                  int32_t max_tokens);

  // Returns a hash of everything that determines a vector: weights, vocabulary, settings, Unicode
  // version. Reads all weights.
  absl::StatusOr<std::string> Fingerprint() const;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_
