#include "retrieval/hashing_embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/parallel_for.h"
#include "retrieval/unit_length.h"
#include "retrieval/word_ngrams.h"

namespace braid {
namespace {

constexpr int32_t kHashingEmbedderMaxDimension = 65536;
constexpr int32_t kMaxNgram = 8;
constexpr int64_t kHashingEmbedderDocumentsPerBlock = 16;

absl::Status CheckRange(const char* field, int32_t got, int32_t max) {
  if (got >= 1 && got <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("hashing embedder: ", field, ": got ", got, ", expected 1 to ", max));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HashingEmbedder>> HashingEmbedder::Create(
    const HashingOptions& options, std::optional<DocumentFrequencies> frequencies) {
  RETURN_IF_ERROR(CheckRange("dimension", options.dimension, kHashingEmbedderMaxDimension));
  RETURN_IF_ERROR(CheckRange("max_ngram", options.max_ngram, kMaxNgram));
  if (frequencies && frequencies->max_ngram() != options.max_ngram) {
    return absl::InvalidArgumentError(absl::StrCat(
        "hashing embedder: document frequencies were fitted with max_ngram ",
        frequencies->max_ngram(), ", expected ", options.max_ngram, "; fit them again"));
  }
  return std::unique_ptr<HashingEmbedder>(new HashingEmbedder(options, std::move(frequencies)));
}

absl::Status HashingEmbedder::Embed(std::span<const std::string_view> texts,
                                    std::span<float> vectors) const {
  const auto dimension = static_cast<size_t>(options_.dimension);
  if (vectors.size() != texts.size() * dimension) {
    return absl::InvalidArgumentError(absl::StrCat("hashing embedder: got an output of ",
                                                   vectors.size(), " values, expected ",
                                                   texts.size(), " x ", dimension));
  }
  ParallelFor(static_cast<int64_t>(texts.size()), kHashingEmbedderDocumentsPerBlock,
              [&](int64_t begin, int64_t end) {
                for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                  EmbedOne(texts[i], vectors.subspan(i * dimension, dimension));
                }
              });
  return absl::OkStatus();
}

HashingEmbedder::HashingEmbedder(const HashingOptions& options,
                                 std::optional<DocumentFrequencies> frequencies)
    : options_(options), frequencies_(std::move(frequencies)) {
  if (!frequencies_) return;
  inverse_frequencies_.resize(DocumentFrequencies::kNumBuckets);
  for (size_t bucket = 0; bucket < inverse_frequencies_.size(); ++bucket) {
    inverse_frequencies_[bucket] = frequencies_->InverseFrequency(bucket);
  }
}

double HashingEmbedder::InverseFrequency(uint64_t ngram_hash) const {
  if (inverse_frequencies_.empty()) return 1;
  return inverse_frequencies_[static_cast<size_t>(DocumentFrequencies::Bucket(ngram_hash))];
}

void HashingEmbedder::EmbedOne(std::string_view text, std::span<float> vector) const {
  // The hashes are sorted, so equal n-grams are adjacent and the order of additions, hence every
  // bit of the result, depends on the text only.
  const std::vector<uint64_t> hashes = WordNgramHashes(text, options_.max_ngram);
  std::vector<double> sums(vector.size(), 0);
  for (auto first = hashes.begin(); first != hashes.end();) {
    auto last = first + 1;  // most n-grams occur once
    while (last != hashes.end() && *last == *first) ++last;
    const auto count = static_cast<double>(last - first);
    const double weight = (count > 1 ? 1 + std::log(count) : 1) * InverseFrequency(*first);
    sums[(*first >> 20) % sums.size()] += *first >> 63 ? -weight : weight;
    first = last;
  }
  ScaleToUnitLength<double>(sums, vector);
}

std::string HashingEmbedder::fingerprint() const {
  return absl::StrCat(
      "hashing-1 dimension=", options_.dimension, " max_ngram=", options_.max_ngram,
      " frequencies=", frequencies_ ? frequencies_->fingerprint() : std::string("none"));
}

}  // namespace braid
