// Selections of expert choice routing (arXiv 2202.09368, equation 1): which entries of a score
// matrix are chosen. Pure functions without gradient; ties go to the lowest index, NaN counts as
// greatest. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_
#define BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Selects, for each expert, the `capacity` decisions of each sequence with the highest scores.
// scores [B, R, E] -> bool [B, R, E]; a decision may be selected by any number of experts,
// including none. Requires capacity <= R.
at::Tensor ExpertChoice(const at::Tensor& scores, int64_t capacity);

// Selects the best expert of each row: scores [..., E] -> bool [..., E]. Replaces expert choice
// outside training, where it must not compare with later positions.
at::Tensor BestExperts(const at::Tensor& scores);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_
