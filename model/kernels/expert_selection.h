// Which experts the scores of a token choose.
#ifndef BRAID_MODEL_KERNELS_EXPERT_SELECTION_H_
#define BRAID_MODEL_KERNELS_EXPERT_SELECTION_H_

#include <cstdint>

namespace braid {

enum class ExpertSelection {
  kTop,     // the k highest scores
  kBottom,  // the k lowest scores
  kNotTop,  // the k scores that rank after the top k; the k lowest when fewer than k are left
};

// Writes the k experts that each row of scores [T, N] chooses to chosen [T, k], ascending. Ties go
// to the lowest index. Requires 1 <= k <= N. Returns the first row with a score that is not a
// number, or -1; the choice of such a row is undefined.
int64_t SelectExperts(const float* scores, int64_t num_tokens, int64_t num_experts, int64_t k,
                      ExpertSelection selection, int32_t* chosen);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_EXPERT_SELECTION_H_
