// Log probabilities of continuations of one sequence, as a batch over its key-value
// cache. Tensor code: private to trainer/model.
#ifndef BRAID_MODEL_CONTINUATION_SCORES_H_
#define BRAID_MODEL_CONTINUATION_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/sequence_state.h"

namespace braid {

// ln p of every token, [C][tokens]. No continuation is empty, holds an id outside the
// vocabulary or ends beyond sequence_length; the sequence has a token. Continuations
// are padded to the longest of a group, where alike lengths come together and a group
// has at most about 4096 positions.
std::vector<std::vector<float>> ContinuationScores(
    const ModelTensors& model, const SequenceState& sequence,
    std::span<const std::vector<int32_t>> continuations);

}  // namespace braid

#endif  // BRAID_MODEL_CONTINUATION_SCORES_H_
