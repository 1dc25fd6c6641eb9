// Routing weights: per decision one row of E numbers that sum to 1. Algorithm 1 of arXiv
// 2405.03133. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_
#define BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/v1/model.pb.h"

namespace braid {

// Returns W r(mean), where r is as in RoutingWeights. means [..., D], router [E, D] -> [..., E].
at::Tensor RouterScores(const at::Tensor& means, const at::Tensor& router,
                        const v1::RoutingConfig& config);

// Returns softmax(W r(mean)), where r is LayerNorm without affine parameters (NORMALIZED_MEAN) or
// the identity. means [..., D], router [E, D] -> [..., E].
at::Tensor RoutingWeights(const at::Tensor& means, const at::Tensor& router,
                          const v1::RoutingConfig& config);

// Returns 1/E for every expert, shape [..., E].
at::Tensor UniformWeights(at::IntArrayRef shape, const at::TensorOptions& options);

// In the functions below, x [B, L, D] holds the FFN inputs of whole sequences. A segment is
// segment_length positions; the last segment of a sequence may be shorter.

// Returns the number of segments of L positions: L / segment_length, rounded up.
int64_t NumSegments(int64_t length, const v1::RoutingConfig& config);

// Returns the weights of the first segment, given the decision on its own mean [..., E]: that
// decision without gradient (SELF_STOP_GRADIENT), or 1/E for every expert (UNIFORM).
at::Tensor FirstSegmentWeights(const at::Tensor& own, const v1::RoutingConfig& config);

// Returns one decision per segment, [B, N, E]. Segment n > 0 routes on the mean of segment n-1,
// with gradient. Segment 0 uses FirstSegmentWeights; under SELF_STOP_GRADIENT these are
// bit-identical to the weights of segment 1.
at::Tensor SegmentWeights(const at::Tensor& x, const at::Tensor& router,
                          const v1::RoutingConfig& config);

// Returns one decision per sequence, [B, E], on the mean of its first segment, with gradient.
at::Tensor PrefixWeights(const at::Tensor& x, const at::Tensor& router,
                         const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_ROUTING_WEIGHTS_H_
