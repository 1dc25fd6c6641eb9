#include "retrieval/embedding_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "retrieval/document_vectors.h"

namespace braid {
namespace {

constexpr int64_t kFramingBytes = kMaxEmbeddingMessageBytes - kMaxEmbeddingTextBytes;

}  // namespace

int64_t MaxTextsOfBatch(int32_t dimension) {
  constexpr int64_t kMostTexts = 4096;
  const int64_t row_bytes = int64_t{dimension} * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kMaxEmbeddingMessageBytes / row_bytes, 1, kMostTexts);
}

absl::StatusOr<std::vector<EmbeddingBatch>> SplitIntoBatches(
    std::span<const std::string_view> texts, int32_t dimension, int64_t target_bytes,
    int64_t target_texts) {
  const auto max_texts = static_cast<size_t>(std::min(MaxTextsOfBatch(dimension), target_texts));
  std::vector<EmbeddingBatch> batches;
  int64_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t text_bytes = static_cast<int64_t>(texts[i].size()) + kFramingBytes;
    if (text_bytes > kMaxEmbeddingMessageBytes) {
      // Not RESOURCE_EXHAUSTED, after which jobs try again: the text stays as long as it is.
      return absl::InvalidArgumentError(absl::StrCat(
          "text ", i, " of the call: got ", texts[i].size(), " bytes, expected at most the ",
          kMaxEmbeddingTextBytes,
          " of one request to an embedding server; cut long documents with ingest.split_bytes"));
    }
    const bool full = batches.empty() || bytes + text_bytes > target_bytes || i % max_texts == 0;
    if (full) {
      batches.push_back({i, i});
      bytes = 0;
    }
    batches.back().end = i + 1;
    bytes += text_bytes;
  }
  return batches;
}

absl::Status CheckEmbeddingAnswer(const v1::EmbedResponse& answer, int64_t num_texts,
                                  int32_t dimension) {
  const auto& values = answer.values();
  if (values.size() != num_texts * dimension || answer.num_truncated() < 0 ||
      answer.num_truncated() > num_texts) {
    return absl::InternalError(absl::StrCat("malformed answer: got ", values.size(), " values and ",
                                            answer.num_truncated(), " truncated texts for batch ",
                                            answer.batch(), ", expected ", num_texts * dimension,
                                            " values of ", num_texts, " texts"));
  }
  const absl::Status unit =
      CheckUnitVectors({values.data(), static_cast<size_t>(values.size())}, dimension);
  if (unit.ok()) return unit;
  return absl::InternalError(
      absl::StrCat("malformed answer: batch ", answer.batch(), ": ", unit.message()));
}

}  // namespace braid
