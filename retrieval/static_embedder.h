// Static embeddings (model2vec, github.com/MinishLab/model2vec): the vector of a text is the mean
// of the vectors of its tokens, which a table holds, divided by its norm. Hundreds of times as fast
// as an encoder, and closer to one than hashed words are.
#ifndef BRAID_RETRIEVAL_STATIC_EMBEDDER_H_
#define BRAID_RETRIEVAL_STATIC_EMBEDDER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/embedder.h"
#include "retrieval/wordpiece_tokenizer.h"

namespace braid {

struct StaticOptions {
  // Directory in model2vec's layout: model.safetensors with the tensor "embeddings" [V, d] and a
  // tokenizer.json of WordPiece.
  std::filesystem::path directory = {};
  // Maximum tokens of a text that count; the default is model2vec's.
  int32_t max_tokens = 512;
};

// Thread-safe. Unknown tokens do not count; a text without others has the zero vector.
class StaticEmbedder final : public Embedder {
 public:
  // Errors: those of WeightFiles and ParseWordPieceJson; INVALID_ARGUMENT for tensors other than
  // "embeddings", for one that is not a matrix or has fewer rows than the vocabulary has pieces,
  // and for max_tokens below 1.
  static absl::StatusOr<std::unique_ptr<StaticEmbedder>> Load(const StaticOptions& options);

  // Checks the files as Load does, but does not read the table.
  static absl::Status Check(const StaticOptions& options);

  int32_t dimension() const override { return dimension_; }
  // Gives the same bits for any number of threads. INVALID_ARGUMENT if `vectors` is not [texts,
  // dimension].
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  StaticEmbedder(const StaticOptions& options, WordPieceTokenizer tokenizer)
      : max_tokens_(options.max_tokens), tokenizer_(std::move(tokenizer)) {}
  // Writes the vector of a text and returns whether the text was cut.
  bool EmbedOne(std::string_view text, std::span<float> vector) const;

  const int32_t max_tokens_;
  const WordPieceTokenizer tokenizer_;
  int32_t dimension_ = 0;
  std::vector<float> table_;  // [V, d]
  std::string fingerprint_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_STATIC_EMBEDDER_H_
