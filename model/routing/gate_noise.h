// Random numbers of the gates of token-routed experts. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_GATE_NOISE_H_
#define BRAID_MODEL_ROUTING_GATE_NOISE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/routing/routing_context.h"

namespace braid {

// Returns float numbers [B * L, N], uniform in [0, 1), without gradient. Number (b, t, e) is a pure
// function of the context's seed, step, layer and instance of sequence b, and of t and e.
at::Tensor UniformScores(const RoutingContext& context, int64_t batch, int64_t length,
                         int64_t num_experts);

// Returns float numbers [length, N], uniform in [0, 1), without gradient, for positions from
// `begin` on: number (t, e) is a pure function of the seed, the layer, position begin + t, and e.
at::Tensor SeededScores(uint64_t seed, int layer, int64_t begin, int64_t length,
                        int64_t num_experts);

// Returns numbers [T, N] as UniformScores does, for tokens [T] int64: number (t, e) is a pure
// function of the layer, the id of token t, and e.
at::Tensor HashScores(const at::Tensor& tokens, int layer, int64_t num_experts);

// Returns standard normal numbers with the same keys (Box-Muller transform).
at::Tensor NormalNoise(const RoutingContext& context, int64_t batch, int64_t length,
                       int64_t num_experts);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_GATE_NOISE_H_
