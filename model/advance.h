// The forward pass of decoding: tokens behind sequences that are kept in caches.
// Tensor code: private to trainer/model.
#ifndef BRAID_MODEL_ADVANCE_H_
#define BRAID_MODEL_ADVANCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model/sequence_state.h"

namespace braid {

// Appends `tokens`, all of one segment where the layers route by segment, any number
// otherwise.
void Advance(const ModelTensors& model, std::span<const int32_t> tokens, SequenceState* sequence);

// Appends tokens[i] to sequences[i] and returns their logits [n][V]. Matrices that all
// sequences share are read once: attention projections and head, and the FFNs of layers
// that do not merge experts.
std::vector<std::vector<float>> AdvanceTogether(const ModelTensors& model,
                                                std::span<const int32_t> tokens,
                                                std::span<SequenceState* const> sequences);

// Logits [n][V] of hidden states [n, D].
std::vector<std::vector<float>> LogitRows(const ModelTensors& model, const at::Tensor& hidden);

}  // namespace braid

#endif  // BRAID_MODEL_ADVANCE_H_
