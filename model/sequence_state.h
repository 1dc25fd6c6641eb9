// The state that a decoder keeps of its sequence, and the tensors of the model that it reads.
// Tensor code: private to model/.
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

// References to a model's tensors. The referenced objects must outlive every holder.
struct ModelTensors {
  const v1::ModelConfig& config;
  const TransformerWeights& weights;
  const AttentionTables& tables;
};

struct LayerState {
  at::Tensor keys, values;  // [Hkv, sequence_length, hd]
  std::unique_ptr<IncrementalFfn> ffn;
};

struct SequenceState {
  std::vector<LayerState> layers;
  std::vector<int32_t> tokens;
  int active_experts = 0;  // TOKEN_CHOICE: experts of each token
  at::Tensor last_hidden;  // [1, D]: the state of the last token after the final norm.

  int64_t position() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace braid

#endif  // BRAID_MODEL_SEQUENCE_STATE_H_
