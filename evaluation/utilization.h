// Expert utilisation over training, from what a run wrote down about its routers.
#ifndef BRAID_EVALUATION_UTILIZATION_H_
#define BRAID_EVALUATION_UTILIZATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The measurements of `layers` up to `last_step`, by step and then layer. Of more than
// `max_steps` measured steps, that many evenly spread ones, the first and the last
// among them. Active experts are those of the last ten steps (arXiv 2405.03133,
// figure 6 and appendix G.1).
std::vector<v1::UtilizationPoint> UtilizationOf(std::span<const v1::StepMetrics> metrics,
                                                std::span<const int> layers, int64_t last_step,
                                                int64_t max_steps = 300);

}  // namespace braid

#endif  // BRAID_EVALUATION_UTILIZATION_H_
