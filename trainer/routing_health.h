// Router and expert health of a run over its steps: the content of StepMetrics.routing.
//
//   health.AddStep(pass.routing);                           // every step with experts
//   ASSIGN_OR_RETURN(auto layers, health.Measure(model, communicator));   // periodically
#ifndef BRAID_TRAINER_ROUTING_HEALTH_H_
#define BRAID_TRAINER_ROUTING_HEALTH_H_

#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "model/language_model.h"
#include "trainer/parallel/communicator.h"
#include "trainer/routing_totals.h"

namespace braid {

// The measurements of one rank. Adding a step costs no communication.
class RoutingHealth {
 public:
  // Number of steps over which an expert counts as active (arXiv 2405.03133, figure 9 of appendix
  // G.1). The window is not part of checkpoints: it fills up again after a resume.
  static constexpr size_t kWindowSteps = 10;

  // Adds this rank's totals of a step, one per layer of MoeLayers; empty before upcycling.
  void AddStep(std::vector<RoutingTotals> totals);

  // Returns the health over all ranks, the same on each: entropy, effective experts and mean
  // weights of the newest step, experts active in the window, and the mean cosine of the current
  // expert parameters. Collective; the layers' cosines are divided among ranks. Empty when the
  // newest step had no experts.
  absl::StatusOr<std::vector<v1::LayerRouting>> Measure(LanguageModel& model,
                                                        Communicator& communicator) const;

 private:
  std::vector<RoutingTotals> newest_;
  // Newest last; by layer, then expert: whether it was active in a decision of this rank.
  std::deque<std::vector<bool>> active_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_ROUTING_HEALTH_H_
