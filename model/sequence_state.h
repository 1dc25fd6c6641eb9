// The state that a decoder keeps of its sequence, and the tensors of the model that it reads.
// Tensor code: private to model/.
#ifndef BRAID_MODEL_SEQUENCE_STATE_H_
#define BRAID_MODEL_SEQUENCE_STATE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/kernels/causal_attention.h"
#include "model/layer_mixing.h"
#include "model/routing/incremental_ffn.h"
#include "model/transformer.h"

namespace braid {

// References to a model's tensors. The referenced objects must outlive every holder.
struct ModelTensors {
  const v1::ModelConfig& config;
  const TransformerWeights& weights;
  const AttentionTables& tables;
  std::optional<uint64_t> routing_seed = {};  // as in RoutingContext
};

// The state of one layer. Hkv key and value heads of width hd.
struct LayerState {
  at::Tensor keys, values;  // [Hkv, sequence_length, hd]
  std::unique_ptr<IncrementalFfn> ffn;
  int64_t position = 0;  // how many positions of the sequence have passed through the layer
};

// What a mixing layer keeps beside its own state. Another layer gets keys and values of this
// layer's inputs when a position first chooses it, for all positions before it.
struct MixingState {
  at::Tensor inputs;                 // [sequence_length, D], defined with MixesByPosition
  std::map<int, LayerState> others;  // by layer
  MixingChoice choice;               // [1, K], that of the current example with SEQUENCE
};

// The state of a sequence in all layers, owned by a decoder.
struct SequenceState {
  std::vector<LayerState> layers;
  std::map<int, MixingState> mixing;  // by mixing layer
  MergeMode mode = MergeMode::kSegment;
  // The configuration and the seed of the decoder that owns the sequence. Decoders that step
  // together may differ in seeds and active experts.
  const v1::ModelConfig* config = nullptr;
  std::optional<uint64_t> routing_seed = {};
  std::vector<int32_t> tokens;
  int64_t prompt_length = 0;  // tokens of the last Prefill, with which the sequence begins
  int active_experts = 0;     // TOKEN_CHOICE: experts of each token
  at::Tensor last_hidden;     // [1, D]: the state of the last token after the final norm.

  int64_t position() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace braid

#endif  // BRAID_MODEL_SEQUENCE_STATE_H_
