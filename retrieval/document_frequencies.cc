#include "retrieval/document_frequencies.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "retrieval/parallel_for.h"
#include "retrieval/word_ngrams.h"

namespace braid {
namespace {

constexpr int64_t kDocumentFrequenciesDocumentsPerBlock = 16;
constexpr size_t kNumHeaderValues = 2;

std::vector<int64_t> DistinctBuckets(std::string_view text, int32_t max_ngram) {
  std::vector<int64_t> buckets;
  for (uint64_t hash : WordNgramHashes(text, max_ngram)) {
    buckets.push_back(DocumentFrequencies::Bucket(hash));
  }
  std::sort(buckets.begin(), buckets.end());
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

absl::Status Unusable(const std::filesystem::path& path, std::string_view problem) {
  return absl::DataLossError(absl::StrCat(
      path.string(),
      ": not a table of document frequencies: ", absl::string_view(problem.data(), problem.size()),
      "; fit it again by deleting the file and repeating the embed stage"));
}

}  // namespace

DocumentFrequencies::DocumentFrequencies(int32_t max_ngram)
    : max_ngram_(max_ngram), counts_(kNumBuckets, 0) {
  BRAID_CHECK(max_ngram >= 1) << max_ngram;
}

void DocumentFrequencies::AddAll(std::span<const std::string_view> texts) {
  num_documents_ += static_cast<int64_t>(texts.size());
  BRAID_CHECK(num_documents_ <= std::numeric_limits<uint32_t>::max()) << num_documents_;
  ParallelFor(static_cast<int64_t>(texts.size()), kDocumentFrequenciesDocumentsPerBlock,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  for (int64_t bucket : DistinctBuckets(texts[i], max_ngram_)) {
                    std::atomic_ref(counts_[bucket]).fetch_add(1, std::memory_order_relaxed);
                  }
                }
              });
}

double DocumentFrequencies::InverseFrequency(uint64_t ngram_hash) const {
  return std::log((1.0 + static_cast<double>(num_documents_)) /
                  (1.0 + static_cast<double>(Frequency(ngram_hash))));
}

std::string DocumentFrequencies::fingerprint() const {
  const uint64_t seed =
      static_cast<uint64_t>(num_documents_) * 31 + static_cast<uint64_t>(max_ngram_);
  const uint64_t hash =
      XXH3_64bits_withSeed(counts_.data(), counts_.size() * sizeof(counts_[0]), seed);
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

absl::Status DocumentFrequencies::Save(const std::filesystem::path& path) const {
  std::vector<uint32_t> values = {static_cast<uint32_t>(num_documents_),
                                  static_cast<uint32_t>(max_ngram_)};
  values.insert(values.end(), counts_.begin(), counts_.end());
  ASSIGN_OR_RETURN(auto writer, NpyWriter<uint32_t>::Create(path, {}));
  RETURN_IF_ERROR(writer.AppendRows(values));
  return writer.Commit().status();
}

absl::StatusOr<DocumentFrequencies> DocumentFrequencies::Load(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto array, NpyArray<uint32_t>::Open(path));
  const std::span<const uint32_t> values = array.values();
  if (values.size() != kNumHeaderValues + kNumBuckets) {
    return Unusable(path, "got " + std::to_string(values.size()) + " values, expected " +
                              std::to_string(kNumHeaderValues + kNumBuckets));
  }
  if (values[1] < 1 || values[1] > 1000) {
    return Unusable(path, "max_ngram is " + std::to_string(values[1]));
  }
  DocumentFrequencies frequencies(static_cast<int32_t>(values[1]));
  frequencies.num_documents_ = values[0];
  std::copy(values.begin() + kNumHeaderValues, values.end(), frequencies.counts_.begin());
  if (std::ranges::any_of(frequencies.counts_, [&](uint32_t c) { return c > values[0]; })) {
    return Unusable(path, "a count exceeds the number of documents, " + std::to_string(values[0]));
  }
  return frequencies;
}

}  // namespace braid
