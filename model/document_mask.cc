#include "model/document_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

namespace braid {

at::Tensor DocumentStarts(const at::Tensor& tokens, int32_t document_end) {
  const int64_t length = tokens.size(1);
  // starts[t] = t where the token before ends a document, else 0.
  at::Tensor starts = at::zeros_like(tokens);
  if (length > 1) {
    const at::Tensor ended = tokens.narrow(1, 0, length - 1).eq(document_end);
    starts.narrow(1, 1, length - 1)
        .copy_(ended.mul(at::arange(1, length, tokens.options()).unsqueeze(0)));
  }
  return std::get<0>(starts.cummax(1)).to(at::kInt).contiguous();
}

at::Tensor FirstVisible(const v1::ModelConfig& config, const at::Tensor& tokens) {
  if (config.attention_mask() != v1::DOCUMENT) return {};
  return DocumentStarts(tokens, config.document_end());
}

VisibleTokens VisibleFrom(const v1::ModelConfig& config, std::span<const int32_t> past,
                          std::span<const int32_t> next) {
  if (config.attention_mask() != v1::DOCUMENT) return {};
  const int32_t end = config.document_end();
  const auto last = std::find(past.rbegin(), past.rend(), end);
  VisibleTokens visible;
  visible.begin = past.rend() - last;
  if (std::find(next.begin(), next.end(), end) == next.end()) return visible;
  std::vector<int32_t> first(next.size(), 0);
  for (size_t i = 1; i < next.size(); ++i) {
    const auto position = static_cast<int64_t>(past.size() + i) - visible.begin;
    first[i] = next[i - 1] == end ? static_cast<int32_t>(position) : first[i - 1];
  }
  visible.first = at::tensor(first, at::kInt);
  return visible;
}

}  // namespace braid
