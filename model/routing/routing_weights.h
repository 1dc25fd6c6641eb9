// Routing weights: one row of E numbers that sum to 1 for each decision.
// Algorithm 1 of arXiv 2405.03133. Tensor code: private to trainer/model.
#ifndef BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_
#define BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/v1/model.pb.h"

namespace braid {

// softmax(W r(mean)), where r is LayerNorm without affine parameters
// (NORMALIZED_MEAN) or the identity. means [..., D], router [E, D] -> [..., E].
at::Tensor RoutingWeights(const at::Tensor& means, const at::Tensor& router,
                          const v1::RoutingConfig& config);

// 1/E for every expert, shape [..., E].
at::Tensor UniformWeights(at::IntArrayRef shape, const at::TensorOptions& options);

// The FFN inputs x of whole sequences are [B, L, D] below; a segment is
// segment_length positions, the last one of a sequence may be shorter.

// Segments of L positions: L / segment_length rounded up.
int64_t NumSegments(int64_t length, const v1::RoutingConfig& config);

// What the first segment uses, given the decision from its own mean [..., E]:
// that without any gradient (SELF_STOP_GRADIENT), or 1/E for every expert.
at::Tensor FirstSegmentWeights(const at::Tensor& own, const v1::RoutingConfig& config);

// One decision a segment, [B, N, E]: segment n > 0 routes on the mean of segment
// n-1, with gradient; segment 0 as FirstSegmentWeights, to the bit the weights of
// segment 1 under SELF_STOP_GRADIENT.
at::Tensor SegmentWeights(const at::Tensor& x, const at::Tensor& router,
                          const v1::RoutingConfig& config);

// One decision a sequence, [B, E], on the mean of its first segment, with
// gradient.
at::Tensor PrefixWeights(const at::Tensor& x, const at::Tensor& router,
                         const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_
