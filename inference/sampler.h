// The next token from its logits.
#ifndef BRAID_INFERENCE_SAMPLER_H_
#define BRAID_INFERENCE_SAMPLER_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace braid {

// Softmax of logits / temperature, cut to its nucleus: the smallest set of most
// likely tokens with mass at least top_p (Holtzman et al., arXiv 1904.09751),
// from which `uniform` in [0, 1) picks. Ties go to the lower id. Temperature 0
// takes the most likely token. DataLoss when there is a NaN among the logits or no
// finite maximum: the weights are damaged. Requires logits, temperature >= 0, top_p > 0.
absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, double temperature, double top_p,
                                    double uniform);

}  // namespace braid

#endif  // BRAID_INFERENCE_SAMPLER_H_
