// How often mixing layers choose each layer: the content of StepMetrics.layer_choices.
#ifndef BRAID_TRAINER_LAYER_CHOICE_SHARES_H_
#define BRAID_TRAINER_LAYER_CHOICE_SHARES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/language_model.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// Returns the shares of the choices of all ranks, one entry for each mixing layer, the same on each
// rank; empty without a layer that may take a second pass. `counts` are those of this rank: one
// entry for each mixing layer, or none where it has no choices. The counts are summed exactly.
// Collective, except for a model whose layers do not mix.
absl::StatusOr<std::vector<v1::LayerChoices>> LayerChoiceShares(
    const v1::ModelConfig& model, const std::vector<LayerChoiceCounts>& counts,
    Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_LAYER_CHOICE_SHARES_H_
