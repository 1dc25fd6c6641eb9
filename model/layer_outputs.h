// What the layers of a model make of a text, for analyses. The tensor library does not appear in
// this header.
#ifndef BRAID_MODEL_LAYER_OUTPUTS_H_
#define BRAID_MODEL_LAYER_OUTPUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace braid {

// Runs the model on tokens [batch_size, L], routed as kSegment, and returns the mean over the
// positions from `first` on of the residual stream after the embedding and after each layer,
// [num_layers + 1, batch_size, D]. Requires 0 <= first < L. InvalidArgument for a size or token id
// out of range, a model with adapters, and layers that are chosen for a batch.
absl::StatusOr<std::vector<float>> MeanLayerOutputs(LanguageModel& model,
                                                    std::span<const int32_t> tokens,
                                                    int64_t batch_size, int64_t first);

// Returns how often the positions of one prompt, `tokens`, chose each layer in each mixing layer,
// ascending; empty for a model without a second pass of layers. With the decision SEQUENCE all
// positions choose together. Errors as MeanLayerOutputs.
absl::StatusOr<std::vector<LayerChoiceCounts>> PromptLayerChoices(LanguageModel& model,
                                                                  std::span<const int32_t> tokens);

}  // namespace braid

#endif  // BRAID_MODEL_LAYER_OUTPUTS_H_
