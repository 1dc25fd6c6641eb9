// Noise on the token embeddings: in fine-tuning (NEFTune, arXiv 2310.05914), and in evaluation as a
// test of robustness (MoLEx, arXiv 2503.11144). Tensor code: private to model/.
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

// Noise outside training, see LanguageModel::SetInputNoise.
struct InputNoise {
  double bound = 0;
  uint64_t seed = 0;
};

// Returns uniform noise [T, width] in (-bound, bound) for tokens [T] at positions [T], int64 both.
// A number is a pure function of seed, token, position and component.
at::Tensor NoiseOfTokens(const InputNoise& noise, const at::Tensor& tokens,
                         const at::Tensor& positions, int64_t width);

}  // namespace braid

#endif  // BRAID_MODEL_EMBEDDING_NOISE_H_
