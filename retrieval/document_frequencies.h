// Counts of the documents that contain each feature: the first of the two passes of TF-IDF.
//
//   DocumentFrequencies frequencies(/*max_ngram=*/2);
//   for (const Chunk& chunk : corpus) frequencies.AddAll(chunk.texts);
//   RETURN_IF_ERROR(frequencies.Save(path));
#ifndef BRAID_RETRIEVAL_DOCUMENT_FREQUENCIES_H_
#define BRAID_RETRIEVAL_DOCUMENT_FREQUENCIES_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Counts word n-grams (word_ngrams.h) in 2^20 buckets by the low bits of their hash, so memory is 4
// MiB for every corpus. Not thread-safe.
class DocumentFrequencies {
 public:
  static constexpr int64_t kNumBuckets = int64_t{1} << 20;
  static int64_t Bucket(uint64_t ngram_hash) {
    return static_cast<int64_t>(ngram_hash & (kNumBuckets - 1));
  }

  // Requires: 1 <= max_ngram.
  explicit DocumentFrequencies(int32_t max_ngram);

  // Adds documents in parallel: each increments every bucket that contains one of its n-grams. The
  // counts do not depend on the number of threads or the order.
  void AddAll(std::span<const std::string_view> texts);

  int64_t num_documents() const { return num_documents_; }
  int32_t max_ngram() const { return max_ngram_; }
  // Returns the number of documents with an n-gram in the bucket of this hash.
  int64_t Frequency(uint64_t ngram_hash) const {
    return counts_[static_cast<size_t>(Bucket(ngram_hash))];
  }
  // Returns ln((1 + num_documents) / (1 + frequency)), >= 0.
  double InverseFrequency(uint64_t ngram_hash) const;
  // Returns 16 hexadecimal digits computed from all counts.
  std::string fingerprint() const;

  // Writes a .npy of uint32 [2 + 2^20]: num_documents, max_ngram, counts.
  absl::Status Save(const std::filesystem::path& path) const;
  // Reads such a file. DATA_LOSS for another shape or impossible counts.
  static absl::StatusOr<DocumentFrequencies> Load(const std::filesystem::path& path);

 private:
  int32_t max_ngram_;
  int64_t num_documents_ = 0;
  std::vector<uint32_t> counts_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_FREQUENCIES_H_
