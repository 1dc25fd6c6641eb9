// Log probabilities of several continuations of one sequence, computed as a batch over its
// key-value cache. Tensor code: private to model/.
#ifndef BRAID_MODEL_CONTINUATION_SCORES_H_
#define BRAID_MODEL_CONTINUATION_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/sequence_state.h"

namespace braid {

// Returns ln p of every token of each of C continuations, [C][tokens]. The tokens of the sequence
// are unchanged; layers that a token chooses for the first time catch up with it. Requires that the
// sequence has at least one token and that every continuation is non-empty, holds only ids in the
// vocabulary and ends within sequence_length. Continuations are sorted by length and padded to the
// longest of their group; a group has at most about 4096 positions.
std::vector<std::vector<float>> ContinuationScores(
    const ModelTensors& model, std::span<const std::vector<int32_t>> continuations,
    SequenceState* sequence);

}  // namespace braid

#endif  // BRAID_MODEL_CONTINUATION_SCORES_H_
