// What the passes of analyses share. Tensor code: private to model/.
#ifndef BRAID_MODEL_ANALYZED_TOKENS_H_
#define BRAID_MODEL_ANALYZED_TOKENS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "model/language_model.h"
#include "model/transformer.h"

namespace braid {

// Returns InvalidArgument for a model with adapters, sequences that do not divide the tokens or are
// longer than the model's, and a token outside its vocabulary.
absl::Status CheckAnalyzed(const LanguageModel& model, std::span<const int32_t> tokens,
                           int64_t batch_size);

// Runs the model on tokens [batch_size, L] that CheckAnalyzed accepts, routed as kSegment with the
// model's routing seed.
HiddenStates RunAnalyzed(LanguageModel& model, std::span<const int32_t> tokens, int64_t batch_size,
                         const TransformerWeights& weights, RoutingContext context);

// Returns views of the weights of a model, without gradients.
TransformerWeights WeightsOf(LanguageModel& model);

}  // namespace braid

#endif  // BRAID_MODEL_ANALYZED_TOKENS_H_
