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

// Appends `tokens` to one sequence and updates its caches and last_hidden. Requires that all tokens
// belong to one segment if any layer routes by segment; otherwise any number is allowed.
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
