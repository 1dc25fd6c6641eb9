// Mixing of layers (proto LayerMixing; MoLEx, arXiv 2503.11144): defaults, checks, and what follows
// from the settings. Pure functions of the configuration.
#ifndef BRAID_MODEL_CONFIG_LAYER_MIXING_CONFIG_H_
#define BRAID_MODEL_CONFIG_LAYER_MIXING_CONFIG_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Fills what is unset in config->layer_mixing: layers counted from 0, ascending, and `fixed` in
// their order. A list that names every layer is cleared. INVALID_ARGUMENT names a layer that the
// model does not have, that is listed twice, or a list `fixed` of the wrong length.
absl::Status FillMixingDefaults(v1::ModelConfig* config);

// Checks layer_mixing, whose defaults are filled in. INVALID_ARGUMENT names the field.
absl::Status CheckLayerMixing(const v1::ModelConfig& config);

// Returns the M layers that mix and can be chosen, ascending; empty without mixing.
std::vector<int> MixingLayers(const v1::ModelConfig& resolved);

// Returns whether layers are chosen by the scores of a gate (LEARNED, FROZEN), which has
// parameters.
bool HasMixingGate(const v1::ModelConfig& resolved);

// Returns whether no layer runs a second time: without mixing, with the gate OWN_LAYER, or with a
// constant alpha of 1. The model is then the same function as without mixing.
bool MixesNothing(const v1::ModelConfig& resolved);

// Returns whether the layers of an example depend on its prompt (decision SEQUENCE).
bool MixesByPrompt(const v1::ModelConfig& resolved);

// Returns whether the positions of a sequence may choose other layers than its first one does where
// text is evaluated or generated: by token, or by example where the mask parts the examples.
bool MixesByPosition(const v1::ModelConfig& resolved);

// Returns whether the layers of a batch are chosen together (BATCH_MODE, BATCH_MEAN).
bool MixesByBatch(const v1::ModelConfig& resolved);

// Returns OK unless layers are chosen for a batch, which text that is evaluated or generated does
// not have. INVALID_ARGUMENT names the decision.
absl::Status CheckMixingInference(const v1::ModelConfig& resolved);

// Returns OK unless the model has layer_mixing; INVALID_ARGUMENT begins with `field` and says that
// `use` is for plain layers.
absl::Status CheckPlainLayers(const v1::ModelConfig& resolved, const char* field, const char* use);

// Returns how often a position passes through each layer beside the pass of that layer itself, for
// the mixing layers from `first` on, [num_layers]: the expected number where the choice is not
// known, and the most with the decision TOKEN, which runs every layer that a token of the sequence
// chose.
std::vector<double> MixedPasses(const v1::ModelConfig& resolved, int first = 0);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_LAYER_MIXING_CONFIG_H_
