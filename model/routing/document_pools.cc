#include "model/routing/document_pools.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace braid {

DocumentPools::DocumentPools(const v1::RoutingConfig& config)
    : segment_length_(config.segment_length()),
      pool_(config.token().document_pool()),
      num_experts_(config.num_experts()) {}

std::span<const int32_t> DocumentPools::Append(bool begins, std::span<const float> probabilities) {
  if (documents_.empty() || begins) documents_.push_back({.begin = position_});
  Document& document = documents_.back();
  if (position_++ - document.begin < segment_length_) {
    document.probabilities.insert(document.probabilities.end(), probabilities.begin(),
                                  probabilities.end());
    return {};
  }
  if (document.absent.empty() && pool_ < num_experts_) document.absent = AbsentExperts(document);
  return document.absent;
}

void DocumentPools::Truncate(int64_t position) {
  position_ = position;
  while (!documents_.empty() && documents_.back().begin >= position) documents_.pop_back();
  if (documents_.empty()) return;
  Document& document = documents_.back();
  const int64_t held = position - document.begin;
  if (held >= segment_length_) return;
  document.probabilities.resize(held * num_experts_);
  document.absent.clear();
}

bool DocumentPools::BeginsDocument(int64_t position) const {
  return position > 0 && std::ranges::binary_search(documents_, position, {}, &Document::begin);
}

std::vector<int32_t> DocumentPools::AbsentExperts(const Document& document) const {
  std::vector<double> sums(num_experts_);
  for (size_t i = 0; i < document.probabilities.size(); ++i) {
    sums[i % num_experts_] += document.probabilities[i];
  }
  std::vector<int32_t> experts(num_experts_);
  std::iota(experts.begin(), experts.end(), 0);
  std::ranges::stable_sort(experts, std::greater(), [&](int32_t e) { return sums[e]; });
  std::vector<int32_t> absent(experts.begin() + pool_, experts.end());
  std::ranges::sort(absent);
  return absent;
}

at::Tensor PooledScores(const at::Tensor& scores, std::span<const uint8_t> begins,
                        DocumentPools* pools) {
  const int64_t experts = scores.size(1);
  const at::Tensor probabilities =
      at::softmax(scores.detach(), 1).to(at::kCPU, at::kFloat).contiguous();
  at::Tensor masked = at::zeros(scores.sizes(), at::kBool);
  const float* row = probabilities.data_ptr<float>();
  bool* mask = masked.data_ptr<bool>();
  for (const uint8_t begin : begins) {
    for (const int32_t e : pools->Append(begin != 0, {row, row + experts})) mask[e] = true;
    row += experts;
    mask += experts;
  }
  return scores.masked_fill(masked.to(scores.device()), -std::numeric_limits<float>::infinity());
}

at::Tensor PooledScores(const at::Tensor& scores, const at::Tensor& starts,
                        const v1::RoutingConfig& config) {
  const at::Tensor host = starts.to(at::kCPU, at::kInt).contiguous();
  const int32_t* start = host.data_ptr<int32_t>();
  const int64_t length = host.size(1);
  std::vector<at::Tensor> sequences;
  for (int64_t b = 0; b < host.size(0); ++b, start += length) {
    std::vector<uint8_t> begins(length);
    for (int64_t t = 1; t < length; ++t) begins[t] = start[t] != start[t - 1];
    DocumentPools pools(config);
    sequences.push_back(PooledScores(scores.narrow(0, b * length, length), begins, &pools));
  }
  return at::cat(sequences);
}

}  // namespace braid
