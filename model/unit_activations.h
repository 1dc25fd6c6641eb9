// What the hidden units of FFNs compute on a text, for analyses. The tensor library does not appear
// in this header.
#ifndef BRAID_MODEL_UNIT_ACTIVATIONS_H_
#define BRAID_MODEL_UNIT_ACTIVATIONS_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "model/language_model.h"

namespace braid {

// One layer on T tokens. Its U units are those of all experts, in the order of the parameters,
// whether or not their experts are chosen.
struct UnitActivations {
  int layer = 0;
  std::span<const float> keys;    // [T, U]: gate_proj x; of a GPT2 up_proj x without its bias
  std::span<const float> gate;    // [T, U]: the same, of a GPT2 with the bias
  std::span<const float> hidden;  // [T, U]: silu(gate_proj x) * up_proj x, or gelu of `gate`
  // The experts that each token uses, as in LayerRoutingWeights; empty for other routers.
  std::span<const int32_t> chosen;  // [T, k]
};

// Runs the model on tokens [batch_size, L], routed as kSegment, then calls `visit` for each of
// `layers`. The spans are valid during the call. Errors: those of LanguageModel::Evaluate, and
// InvalidArgument for a model with adapters.
absl::Status VisitUnits(LanguageModel& model, std::span<const int32_t> tokens, int64_t batch_size,
                        std::span<const int> layers,
                        const std::function<void(const UnitActivations&)>& visit);

}  // namespace braid

#endif  // BRAID_MODEL_UNIT_ACTIVATIONS_H_
