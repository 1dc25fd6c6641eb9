// Who takes what in expert choice routing (arXiv 2202.09368, equation 1): which
// entries of a score matrix are chosen. Pure selections without gradient; ties
// go to the lowest index, NaN counts as greatest. Tensor code: private to
// trainer/model.
#ifndef BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_
#define BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Each expert chooses the `capacity` decisions of each sequence that score
// highest with it. scores [B, R, E] -> bool [B, R, E]; a decision may be chosen
// by any number of experts, none included. capacity <= R.
at::Tensor ExpertChoice(const at::Tensor& scores, int64_t capacity);

// Each row its best expert: scores [..., E] -> bool [..., E]. What expert choice
// becomes outside training, where it must not compare with later positions.
at::Tensor BestExperts(const at::Tensor& scores);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_EXPERT_CHOICE_H_
