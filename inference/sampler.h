// Samples the next token from its logits.
#ifndef BRAID_INFERENCE_SAMPLER_H_
#define BRAID_INFERENCE_SAMPLER_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace braid {

// Samples from softmax(logits / temperature) restricted to its nucleus: the smallest set of most
// likely tokens with total mass at least top_p (Holtzman et al., arXiv 1904.09751). `uniform` in
// [0, 1) selects the token. Ties go to the lower id; temperature 0 takes the most likely token.
// DataLoss when a logit is NaN or no maximum is finite, which means that the weights are damaged.
// Requires logits, temperature >= 0 and top_p > 0.
absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, double temperature, double top_p,
                                    double uniform);

}  // namespace braid

#endif  // BRAID_INFERENCE_SAMPLER_H_
