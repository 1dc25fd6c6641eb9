// Expert utilization over training, from the router metrics of a run.
#ifndef BRAID_EVALUATION_UTILIZATION_H_
#define BRAID_EVALUATION_UTILIZATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid::v1 {
class UtilizationPoint;
}  // namespace braid::v1

namespace braid {

// Returns the measurements of `layers` up to `last_step`, by step and then layer. If there are more
// than `max_steps` measured steps, returns that many, evenly spread and including the first and the
// last. Active experts are those of the last ten steps (arXiv 2405.03133, figure 6 and appendix
// G.1).
std::vector<v1::UtilizationPoint> UtilizationOf(std::span<const v1::StepMetrics> metrics,
                                                std::span<const int> layers, int64_t last_step,
                                                int64_t max_steps = 300);

}  // namespace braid

#endif  // BRAID_EVALUATION_UTILIZATION_H_
