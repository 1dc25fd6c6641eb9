// TF-IDF over hashed word n-grams, folded into a short dense vector (the "hashing trick",
// Weinberger et al. 2009). Needs no weights and no network.
//
// For an n-gram with hash h that occurs tf times in a text, with df of N documents in its bucket
// (document_frequencies.h):
//   weight(h)  = (1 + ln tf) * ln((1 + N) / (1 + df))
//   vector[(h >> 20) mod dimension] += (top bit of h ? -1 : +1) * weight(h)
// and the vector is divided by its L2 norm. The three parts of h (low 20 bits: bucket, middle:
// dimension, top: sign) are independent, so collisions of features cancel on average instead of
// adding up. A text without n-grams, or whose n-grams all occur in every document, has the zero
// vector.
#ifndef BRAID_RETRIEVAL_HASHING_EMBEDDER_H_
#define BRAID_RETRIEVAL_HASHING_EMBEDDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/document_frequencies.h"
#include "retrieval/embedder.h"

namespace braid {

struct HashingOptions {
  int32_t dimension = 512;
  int32_t max_ngram = 2;
};

// Thread-safe.
class HashingEmbedder final : public Embedder {
 public:
  // Without frequencies the inverse frequency of every n-gram is 1. INVALID_ARGUMENT for a
  // dimension outside 1..65536, max_ngram outside 1..8, or frequencies with another max_ngram.
  static absl::StatusOr<std::unique_ptr<HashingEmbedder>> Create(
      const HashingOptions& options, std::optional<DocumentFrequencies> frequencies);

  int32_t dimension() const override { return options_.dimension; }
  // Gives the same bits for any number of threads. INVALID_ARGUMENT if `vectors` is not [texts,
  // dimension].
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  std::string fingerprint() const override;

 private:
  HashingEmbedder(const HashingOptions& options, std::optional<DocumentFrequencies> frequencies);

  double InverseFrequency(uint64_t ngram_hash) const;
  void EmbedOne(std::string_view text, std::span<float> vector) const;

  HashingOptions options_;
  std::optional<DocumentFrequencies> frequencies_;
  std::vector<double> inverse_frequencies_;  // by bucket; empty without frequencies
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_HASHING_EMBEDDER_H_
