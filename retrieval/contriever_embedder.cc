#include "retrieval/contriever_embedder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/contriever_directory.h"
#include "retrieval/unit_length.h"

namespace braid {
namespace {

constexpr size_t kEmptyLength = 2;  // [CLS] [SEP]

}  // namespace

std::vector<size_t> PlanBatches(std::span<const int32_t> lengths, int64_t max_tokens) {
  std::vector<size_t> counts;
  int64_t longest = 0;
  for (const int32_t length : lengths) {
    longest = std::max<int64_t>(longest, length);
    const bool fits =
        !counts.empty() && longest * static_cast<int64_t>(counts.back() + 1) <= max_tokens;
    if (fits) {
      ++counts.back();
    } else {
      counts.push_back(1);
      longest = length;
    }
  }
  return counts;
}

absl::StatusOr<std::unique_ptr<ContrieverEmbedder>> ContrieverEmbedder::Load(
    const ContrieverOptions& options) {
  if (options.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_tokens: got ", options.max_batch_tokens, ", expected at least 1"));
  }
  ASSIGN_OR_RETURN(
      ContrieverDirectory files,
      ContrieverDirectory::Open(options.directory, options.max_tokens, options.prefix));
  ASSIGN_OR_RETURN(std::unique_ptr<ContrieverModel> model,
                   ContrieverModel::Load(files.config, files.weights));
  ASSIGN_OR_RETURN(std::string fingerprint, files.Fingerprint());
  std::unique_ptr<ContrieverEmbedder> embedder(
      new ContrieverEmbedder(options, std::move(files.tokenizer), std::move(model)));
  embedder->max_tokens_ = files.max_tokens;
  embedder->pooling_ = files.pooling;
  embedder->prefix_ = std::move(files.prefix);
  embedder->dimension_ = files.config.hidden_size;
  embedder->fingerprint_ = std::move(fingerprint);
  return embedder;
}

absl::Status ContrieverEmbedder::Embed(std::span<const std::string_view> texts,
                                       std::span<float> vectors) const {
  return EmbedAndCountCut(texts, vectors).status();
}

WordPieces ContrieverEmbedder::Encode(std::string_view text) const {
  if (prefix_.empty()) return tokenizer_.Encode(text, max_tokens_);
  WordPieces beginning = tokenizer_.Encode(text, kEmptyLength + 1);
  if (beginning.ids.size() == kEmptyLength) return beginning;
  return tokenizer_.Encode(absl::StrCat(prefix_, std::string(text)), max_tokens_);
}

absl::StatusOr<int64_t> ContrieverEmbedder::EmbedAndCountCut(
    std::span<const std::string_view> texts, std::span<float> vectors) const {
  if (vectors.size() != texts.size() * static_cast<size_t>(dimension_)) {
    return absl::InvalidArgumentError(absl::StrCat("contriever: room for ", vectors.size(),
                                                   " values, expected ", texts.size(), " x ",
                                                   dimension_));
  }
  std::vector<WordPieces> pieces;
  for (const std::string_view text : texts) pieces.push_back(Encode(text));
  std::ranges::fill(vectors, 0.0f);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return pieces[i].ids.size() == kEmptyLength; });
  const auto length = [&](size_t i) { return static_cast<int32_t>(pieces[i].ids.size()); };
  if (options_.bucket_by_length) std::ranges::stable_sort(order, {}, length);
  std::vector<int32_t> lengths;
  for (const size_t i : order) lengths.push_back(length(i));
  std::span<const size_t> rest = order;
  for (const size_t count : PlanBatches(lengths, options_.max_batch_tokens)) {
    RETURN_IF_ERROR(EmbedBatch(pieces, rest.first(count), vectors));
    rest = rest.subspan(count);
  }
  return std::ranges::count_if(pieces, &WordPieces::truncated);
}

absl::Status ContrieverEmbedder::EmbedBatch(const std::vector<WordPieces>& texts,
                                            std::span<const size_t> batch,
                                            std::span<float> vectors) const {
  std::vector<int32_t> lengths;
  for (const size_t i : batch) lengths.push_back(static_cast<int32_t>(texts[i].ids.size()));
  const auto longest = static_cast<size_t>(*std::ranges::max_element(lengths));
  std::vector<int32_t> ids(batch.size() * longest, 0);
  for (size_t row = 0; row < batch.size(); ++row) {
    std::ranges::copy(texts[batch[row]].ids, ids.begin() + static_cast<int64_t>(row * longest));
  }
  const auto width = static_cast<size_t>(dimension_);
  std::vector<float> pooled(batch.size() * width);
  RETURN_IF_ERROR(model_->Pool(ids, lengths, pooling_, pooled));
  for (size_t row = 0; row < batch.size(); ++row) {
    const std::span<float> vector = std::span(pooled).subspan(row * width, width);
    if (!std::isfinite(std::accumulate(vector.begin(), vector.end(), 0.0f))) {
      return absl::InternalError(
          "contriever: got a vector that is not finite; check that the weights belong to "
          "config.json");
    }
    ScaleToUnitLength<float>(vector, vector);
    std::ranges::copy(vector, vectors.begin() + static_cast<int64_t>(batch[row] * width));
  }
  return absl::OkStatus();
}

}  // namespace braid
