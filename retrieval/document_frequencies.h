// How many documents of a corpus hold each feature: the first of the two passes
// of TF-IDF.
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

// Word n-grams (word_ngrams.h) are counted in 2^20 buckets by the low bits of
// their hash, so memory is 4 MiB whatever the corpus. Not thread-safe.
class DocumentFrequencies {
 public:
  static constexpr int64_t kNumBuckets = int64_t{1} << 20;
  static int64_t Bucket(uint64_t ngram_hash) {
    return static_cast<int64_t>(ngram_hash & (kNumBuckets - 1));
  }

  // Requires: 1 <= max_ngram.
  explicit DocumentFrequencies(int32_t max_ngram);

  // One document: +1 for each bucket that one of its n-grams falls into.
  void Add(std::string_view text);
  // The same for many documents, in parallel; the counts do not depend on the
  // number of threads or the order.
  void AddAll(std::span<const std::string_view> texts);

  int64_t num_documents() const { return num_documents_; }
  int32_t max_ngram() const { return max_ngram_; }
  // Documents that hold an n-gram of this hash's bucket.
  int64_t Frequency(uint64_t ngram_hash) const {
    return counts_[static_cast<size_t>(Bucket(ngram_hash))];
  }
  // ln((1 + num_documents) / (1 + frequency)), >= 0.
  double InverseFrequency(uint64_t ngram_hash) const;
  // 16 hexadecimal digits over all counts.
  std::string fingerprint() const;

  // A .npy of uint32 [2 + 2^20]: num_documents, max_ngram, counts.
  absl::Status Save(const std::filesystem::path& path) const;
  // DATA_LOSS for a file of another shape or with impossible counts.
  static absl::StatusOr<DocumentFrequencies> Load(const std::filesystem::path& path);

 private:
  int32_t max_ngram_;
  int64_t num_documents_ = 0;
  std::vector<uint32_t> counts_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_FREQUENCIES_H_
