// The forward pass of decoding: appends tokens to sequences whose keys and values are cached.
// Tensor code: private to model/.
#ifndef BRAID_MODEL_ADVANCE_H_
#define BRAID_MODEL_ADVANCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model/sequence_state.h"

namespace braid {

// Returns the empty state of a layer of the model.
LayerState NewLayerState(const ModelTensors& model, int layer, MergeMode mode);

// Returns the state of layer `other` as a part of a mixing layer, after the first `position`
// positions of the sequence, with which it catches up. After an exception `mixing` has no state of
// that layer, and a later call catches up again.
LayerState* OtherLayer(const ModelTensors& model, int other, int64_t position,
                       SequenceState* sequence, MixingState* mixing);

// Returns the choice `stored` [1, K] where `earlier` [T] is true, and `fresh` elsewhere.
MixingChoice WithEarlier(const MixingChoice& fresh, const at::Tensor& earlier,
                         const MixingChoice& stored);

// Appends `tokens` to one sequence and updates its caches and last_hidden. Requires that all tokens
// belong to one segment if any layer routes by segment, unless sequence->segment divides them;
// otherwise any number is allowed. With layers that mix by prompts, tokens that begin an example
// are its prompt.
void Advance(const ModelTensors& model, std::span<const int32_t> tokens, SequenceState* sequence);

// Appends tokens[i] to sequences[i] and returns their logits, [n][V]. Matrices that all sequences
// share are read from memory once for the whole call: the attention projections, the head, and the
// FFNs of layers that do not merge experts.
std::vector<std::vector<float>> AdvanceTogether(const ModelTensors& model,
                                                std::span<const int32_t> tokens,
                                                std::span<SequenceState* const> sequences);

// Returns the logits [n][V] of the hidden states [n, D].
std::vector<std::vector<float>> LogitRows(const ModelTensors& model, const at::Tensor& hidden);

}  // namespace braid

#endif  // BRAID_MODEL_ADVANCE_H_
