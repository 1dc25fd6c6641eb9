// Which runs of which documents make up an instance: what Packer (packing.h) hands out, known from
// lengths alone. So instances can be made one by one in any order, such as that in which they are
// stored, and from any one on.
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

// Holds 8 bytes a document.
class InstanceLayout {
 public:
  // Documents in packing order and, for each, its tokens without EOS. Requires spans of equal
  // lengths, of which `order` stays valid while the layout is used, and sequence_length >= 1.
  InstanceLayout(std::span<const uint32_t> order, std::span<const int32_t> num_tokens,
                 int32_t sequence_length);

  int64_t num_instances() const;
  int64_t num_tokens() const { return ends_.back(); }  // EOS included

  // Appends the spans of the instance `packed` in packing order, numbered `stored`, by
  // instance_offset. Requires 0 <= packed < num_instances().
  void AppendSpans(int64_t packed, uint32_t stored, std::vector<ProvenanceSpan>* spans) const;

 private:
  std::span<const uint32_t> order_;
  std::vector<int64_t> ends_;  // [n + 1] tokens up to the k-th document of the order
  int64_t instance_tokens_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_INSTANCE_LAYOUT_H_
