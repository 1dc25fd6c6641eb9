#include "pipeline/ordering/instance_layout.h"

#include <algorithm>

#include "base/check.h"

namespace braid {

InstanceLayout::InstanceLayout(std::span<const uint32_t> order, std::span<const int32_t> num_tokens,
                               int32_t sequence_length)
    : order_(order), instance_tokens_(int64_t{sequence_length} + 1) {
  BRAID_CHECK(order.size() == num_tokens.size()) << order.size() << " " << num_tokens.size();
  BRAID_CHECK(sequence_length >= 1) << sequence_length;
  ends_.reserve(order.size() + 1);
  ends_.push_back(0);
  for (const int32_t tokens : num_tokens) ends_.push_back(ends_.back() + tokens + 1);
}

int64_t InstanceLayout::num_instances() const {
  return (num_tokens() + instance_tokens_ - 1) / instance_tokens_;
}

void InstanceLayout::AppendSpans(int64_t packed, uint32_t stored,
                                 std::vector<ProvenanceSpan>* spans) const {
  BRAID_CHECK(packed >= 0 && packed < num_instances()) << packed << " of " << num_instances();
  const int64_t begin = packed * instance_tokens_;
  const int64_t end = std::min(begin + instance_tokens_, num_tokens());
  auto document_end = std::upper_bound(ends_.begin(), ends_.end(), begin);
  for (int64_t at = begin; at < end; ++document_end) {
    const auto place = static_cast<size_t>(document_end - ends_.begin()) - 1;
    const int64_t next = std::min(*document_end, end);
    spans->push_back({.document = order_[place],
                      .document_offset = at - ends_[place],
                      .instance = stored,
                      .instance_offset = static_cast<int32_t>(at - begin),
                      .length = static_cast<int32_t>(next - at)});
    at = next;
  }
}

}  // namespace braid
