// Noise on the token embeddings in fine-tuning (NEFTune, arXiv 2310.05914). Tensor code: private to
// model/.
#ifndef BRAID_MODEL_EMBEDDING_NOISE_H_
#define BRAID_MODEL_EMBEDDING_NOISE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/routing/routing_context.h"

namespace braid {

// Returns uniform noise [B L, width] for the tokens of sequences [B, L]: in (-a, a) with
// a = context.embedding_noise / sqrt(n width) for a token of an example of n tokens (algorithm 1 of
// the paper). `first_visible` [B, L] int32 tells the examples of a sequence apart; where it is
// undefined, a sequence is one example. A number is a pure function of seed, step, instance, pass,
// position and component.
at::Tensor EmbeddingNoise(const RoutingContext& context, const at::Tensor& first_visible,
                          at::IntArrayRef sequences, int64_t width);

}  // namespace braid

#endif  // BRAID_MODEL_EMBEDDING_NOISE_H_
