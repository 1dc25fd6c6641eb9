// A BERT encoder as an Embedder in this process. Programs that serve others run it in a separate
// process: contriever_process.h.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_EMBEDDER_H_
#define BRAID_RETRIEVAL_CONTRIEVER_EMBEDDER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"
#include "retrieval/contriever_model.h"
#include "retrieval/embedder.h"
#include "retrieval/wordpiece_tokenizer.h"

namespace braid {

struct ContrieverOptions {
  // Directory as of ContrieverDirectory.
  std::filesystem::path directory = {};
  // Maximum tokens of a text that are embedded; 0: the limit of the model.
  int32_t max_tokens = 0;
  // Text that is put before each text; nullopt: the default prompt of the model.
  std::optional<std::string> prefix = std::nullopt;
  // Maximum tokens of a batch, including padding; a longer text is a batch of its own. Bounds the
  // memory of a call.
  int32_t max_batch_tokens = 2048;
  // Puts texts of similar length into one batch to reduce padding. Disabled only to measure the
  // effect.
  bool bucket_by_length = true;
};

// Thread-safe. Vectors are those of the published model, L2-normalized. The vector of a text
// depends on the other texts of a call by rounding only, at most 1e-5. A text without word pieces
// of its own has the zero vector.
class ContrieverEmbedder final : public Embedder {
 public:
  // Errors: those of ContrieverDirectory::Open and ContrieverModel::Load; INVALID_ARGUMENT for
  // max_batch_tokens below 1.
  static absl::StatusOr<std::unique_ptr<ContrieverEmbedder>> Load(const ContrieverOptions& options);

  int32_t dimension() const override { return dimension_; }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;
  std::string fingerprint() const override { return fingerprint_; }
  int64_t preferred_batch_texts() const override { return kContrieverBatchTexts; }

 private:
  ContrieverEmbedder(ContrieverOptions options, WordPieceTokenizer tokenizer,
                     std::unique_ptr<const ContrieverModel> model)
      : options_(std::move(options)), tokenizer_(std::move(tokenizer)), model_(std::move(model)) {}

  WordPieces Encode(std::string_view text) const;
  absl::Status EmbedBatch(const std::vector<WordPieces>& texts, std::span<const size_t> batch,
                          std::span<float> vectors) const;

  const ContrieverOptions options_;
  const WordPieceTokenizer tokenizer_;
  const std::unique_ptr<const ContrieverModel> model_;
  int32_t max_tokens_ = 0;
  Pooling pooling_ = Pooling::kMean;
  std::string prefix_;
  int32_t dimension_ = 0;
  std::string fingerprint_;
};

// Divides consecutive texts of `lengths` into batches and returns the number of texts of each. The
// length of the longest text of a batch times its number of texts is at most `max_tokens`, unless
// it has one text.
std::vector<size_t> PlanBatches(std::span<const int32_t> lengths, int64_t max_tokens);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_EMBEDDER_H_
