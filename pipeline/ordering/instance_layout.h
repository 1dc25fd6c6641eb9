// The layout of instances: which spans of which documents make up each instance. It equals what
// Packer (packing.h) produces, but is computed from the lengths alone, so instances can be written
// one by one in any order, such as the shuffled order in which they are stored, and writing can
// resume at any instance.
//
//   const InstanceLayout layout(order, lengths, 4096);
//   std::vector<ProvenanceSpan> spans;
//   layout.AppendSpans(/*packed=*/17, /*stored=*/0, &spans);
#ifndef BRAID_PIPELINE_ORDERING_INSTANCE_LAYOUT_H_
#define BRAID_PIPELINE_ORDERING_INSTANCE_LAYOUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/ordering/packing.h"

namespace braid {

// An immutable, thread-safe layout. Memory: 8 bytes per document. AppendSpans() takes O(log n + s)
// for n documents and s spans.
class InstanceLayout {
 public:
  // Takes the documents in packing order and, for each, its number of tokens without EOS.
  // Requires: spans of equal lengths, of which `order` outlives the layout; sequence_length >= 1.
  InstanceLayout(std::span<const uint32_t> order, std::span<const int32_t> num_tokens,
                 int32_t sequence_length);

  int64_t num_instances() const;
  int64_t num_tokens() const { return ends_.back(); }  // EOS included

  // Appends the spans of the instance that is number `packed` in packing order, ascending by
  // instance_offset, with `stored` as their instance number. Requires: 0 <= packed <
  // num_instances().
  void AppendSpans(int64_t packed, uint32_t stored, std::vector<ProvenanceSpan>* spans) const;

 private:
  std::span<const uint32_t> order_;
  std::vector<int64_t> ends_;  // [n + 1] tokens before the k-th document of the order
  int64_t instance_tokens_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_INSTANCE_LAYOUT_H_
