// Segments of unequal lengths, which begin with documents (segment_boundaries DOCUMENT). Tensor
// code: private to model/.
//
// The segments of a batch are gathered into a few groups that are padded to one length each, so
// that the kernels for segments of equal lengths serve them. A group holds lengths within a factor
// of two, so the padding at most doubles the positions.
#ifndef BRAID_MODEL_ROUTING_DOCUMENT_SEGMENTS_H_
#define BRAID_MODEL_ROUTING_DOCUMENT_SEGMENTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// The N segments of a batch of sequences, numbered sequence by sequence. Indices are int64.
struct DocumentSegments {
  // Segments that are padded to `length` positions.
  struct Group {
    int64_t length = 0;
    at::Tensor segments;   // [n]
    at::Tensor positions;  // [n * length] in the batch [B * L]; B * L stands for padding
  };
  std::vector<Group> groups;
  at::Tensor order;     // [N]: the place of each segment in the groups, one after the other
  at::Tensor places;    // [B * L]: that of each position
  at::Tensor segments;  // [B * L]: the segment of each position
  at::Tensor lengths;   // [N, 1] int64
  at::Tensor before;    // [N]: the segment before, or the segment itself when it is routed as first
  at::Tensor first;     // [N, 1] bool: whether it is routed as the first one of a sequence
};

// Returns the segments of sequences whose position t belongs to the document that begins at
// starts[b][t]; starts [B, L] int32.
DocumentSegments CutAtDocuments(const at::Tensor& starts, const v1::RoutingConfig& config);

// Returns the mean of x [B * L, D] over each segment, [N, D].
at::Tensor SegmentMeans(const at::Tensor& x, const DocumentSegments& segments);

// Returns x [B * L, D] as the segments of a group, [n, length, D], with zeros for padding.
at::Tensor GatherSegments(const at::Tensor& x, const DocumentSegments::Group& group);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_DOCUMENT_SEGMENTS_H_
