// What a decoder holds of its sequence, and what it reads of the model. Tensor
// code: private to trainer/model.
#ifndef BRAID_MODEL_SEQUENCE_STATE_H_
#define BRAID_MODEL_SEQUENCE_STATE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/kernels/causal_attention.h"
#include "model/routing/incremental_ffn.h"
#include "model/transformer.h"

namespace braid {

// All of it outlives whatever holds one.
struct ModelTensors {
  const v1::ModelConfig& config;
  const TransformerWeights& weights;
  const AttentionTables& tables;
};

struct LayerState {
  at::Tensor keys, values;  // [H, sequence_length, hd]
  std::unique_ptr<IncrementalFfn> ffn;
};

struct SequenceState {
  std::vector<LayerState> layers;
  std::vector<int32_t> tokens;
  at::Tensor last_hidden;  // [1, D] after the final norm, of the last token

  int64_t position() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace braid

#endif  // BRAID_MODEL_SEQUENCE_STATE_H_
