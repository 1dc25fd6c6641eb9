// Algorithm 1 of arXiv 2405.03133: the routing weights of a segment come from
// the FFN inputs of the segment before it. Tensor code: private to trainer/model.
#ifndef BRAID_TRAINER_MODEL_SEGMENT_ROUTER_H_
#define BRAID_TRAINER_MODEL_SEGMENT_ROUTER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/v1/model.pb.h"

namespace braid {

// softmax(W r(mean)), where r is LayerNorm without affine parameters
// (NORMALIZED_MEAN) or the identity. means [..., D], router [E, D] -> [..., E].
at::Tensor RoutingWeights(const at::Tensor& means, const at::Tensor& router,
                          const v1::RoutingConfig& config);

// FFN inputs x [B, N, S, D] -> [B, N, E]. Segment n > 0 routes on the mean of
// segment n-1; segment 0 on its own first `first_tokens` tokens with no gradient
// (SELF_STOP_GRADIENT), or uniformly.
at::Tensor RouteSegments(const at::Tensor& x, const at::Tensor& router,
                         const v1::RoutingConfig& config, int64_t first_tokens);

// One decision for each sequence, on the mean of its first segment's
// `first_tokens` tokens: [B, N, S, D] -> [B, E].
at::Tensor RoutePrompts(const at::Tensor& x, const at::Tensor& router,
                        const v1::RoutingConfig& config, int64_t first_tokens);

// 1/E for every expert, shape [..., E].
at::Tensor UniformWeights(at::IntArrayRef shape, const at::TensorOptions& options);

}  // namespace braid

#endif  // BRAID_TRAINER_MODEL_SEGMENT_ROUTER_H_
