// A directory with a BERT encoder in Hugging Face or sentence-transformers layout, opened and
// checked: config.json, vocab.txt or tokenizer.json, tokenizer_config.json if present, the weights,
// and the modules after the encoder (sentence_model.h). Does not use a tensor library, so every
// program can compute the fingerprint.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_
#define BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"
#include "retrieval/contriever_weights.h"
#include "retrieval/sentence_model.h"
#include "retrieval/wordpiece_tokenizer.h"

namespace braid {

// The contents of the directory.
struct ContrieverDirectory {
  ContrieverConfig config;
  WordPieceTokenizer tokenizer;
  ContrieverWeights weights;
  // Maximum tokens of a text that are embedded, including [CLS] and [SEP].
  int32_t max_tokens;
  Pooling pooling = Pooling::kMean;
  // Text that is put before each text.
  std::string prefix = {};

  // Opens a directory. `max_tokens` 0 means the limit of the model, at most its positions; without
  // `prefix` its default prompt is used. Errors: those of the readers; INVALID_ARGUMENT for
  // max_tokens out of range and for a vocabulary or pooling that does not fit the model.
  static absl::StatusOr<ContrieverDirectory> Open(
      const std::filesystem::path& directory, int32_t max_tokens,
      const std::optional<std::string>& prefix = std::nullopt);

  // Returns a hash of everything that determines a vector: weights, vocabulary, settings, Unicode
  // version. Reads all weights.
  absl::StatusOr<std::string> Fingerprint() const;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_
