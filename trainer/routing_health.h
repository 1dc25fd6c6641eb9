// Router and expert health of a run, step after step: what goes into
// StepMetrics.routing.
//
//   health.AddStep(pass.routing);                           // every step with experts
//   ASSIGN_OR_RETURN(auto layers, health.Measure(model, communicator));   // now and then
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

// Of one rank. Adding a step costs no communication.
class RoutingHealth {
 public:
  // Steps over which an expert counts as active (arXiv 2405.03133, figure 9 of
  // appendix G.1). Nothing of them is in a checkpoint: after a resume the window
  // fills up again.
  static constexpr size_t kWindowSteps = 10;

  // This rank's totals of a step, one for each of MoeLayers; empty before
  // upcycling.
  void AddStep(std::vector<RoutingTotals> totals);

  // Over all ranks, the same result on each: entropy, effective experts and mean
  // weights of the newest step, experts active in the window, cosine of the
  // experts' present parameters. Collective; ranks share the layers' cosines
  // among them. Empty when the newest step had no experts.
  absl::StatusOr<std::vector<v1::LayerRouting>> Measure(LanguageModel& model,
                                                        Communicator& communicator) const;

 private:
  std::vector<RoutingTotals> newest_;
  // Newest last; by layer, then expert: active in some decision of this rank.
  std::deque<std::vector<bool>> active_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_ROUTING_HEALTH_H_
