// The running means of the inputs that gates see (TokenRouting.centered_input).
#ifndef BRAID_TRAINER_INPUT_MEANS_H_
#define BRAID_TRAINER_INPUT_MEANS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "braid/v1/model.pb.h"
#include "model/language_model.h"

namespace braid {

// Returns the number of elements of all means: D for each layer with experts, 0 without them.
size_t NumInputMeans(const v1::ModelConfig& resolved);

// Moves the means after 0-based step t with experts towards those of its batch, [NumInputMeans]:
// mean += max(1 / (t + 1), 0.01) (batch - mean), the mean of all batches at first. A model of which
// a part is trained keeps its means, as it keeps its other parameters.
void MoveInputMeans(std::span<const double> batch, int64_t step, LanguageModel& model);

}  // namespace braid

#endif  // BRAID_TRAINER_INPUT_MEANS_H_
