// A directory with a BERT encoder in Hugging Face layout, opened and checked:
// config.json, vocab.txt, tokenizer_config.json if present, and the weights. No tensor
// library, so that anybody may learn the fingerprint.
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

struct ContrieverDirectory {
  ContrieverConfig config;
  WordPieceTokenizer tokenizer;
  ContrieverWeights weights;
  // Tokens of a text that are embedded, [CLS] and [SEP] included.
  int32_t max_tokens;

  // `max_tokens` 0 means all that the model has positions for. Errors are those of the
  // three readers; INVALID_ARGUMENT for max_tokens out of range and for a vocabulary
  // with more pieces than the model.
  static absl::StatusOr<ContrieverDirectory> Open(const std::filesystem::path& directory,
                                                  int32_t max_tokens);

  // A hash of everything that decides a vector: weights, vocabulary, settings, Unicode
  // version. Reads all weights.
  absl::StatusOr<std::string> Fingerprint() const;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_DIRECTORY_H_
