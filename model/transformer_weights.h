// The weights of the decoder as tensors that are views of flat arrays. Tensor code: private to
// model/. Works for any floating type and device.
//
// Letters: D width, H heads, Hkv key and value heads, hd head width, V vocabulary.
#ifndef BRAID_MODEL_TRANSFORMER_WEIGHTS_H_
#define BRAID_MODEL_TRANSFORMER_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "braid/v1/model.pb.h"
#include "model/embedding_noise.h"
#include "model/kernels/adapted_linear.h"
#include "model/kernels/layer_norm.h"
#include "model/layer_mixing.h"
#include "model/routing/ffn_weights.h"

namespace braid {

// The adapters of a layer's matrices; empty without.
struct LayerAdapters {
  Adapters qkv, attention_output, gate_up, down;
  double dropout = 0;

  bool in_ffn() const { return !gate_up.empty() || !down.empty(); }
};

// The weights of one layer. Tensors that a configuration lacks are undefined.
struct LayerWeights {
  NormWeights attention_norm;
  at::Tensor qkv;                    // [(H + 2 Hkv) hd, D]
  at::Tensor qkv_bias;               // [(H + 2 Hkv) hd]; undefined without biases
  at::Tensor query_norm, key_norm;   // [hd]; undefined without qk_norm
  at::Tensor attention_output;       // [D, H hd]
  at::Tensor attention_output_bias;  // [D]; undefined without biases
  NormWeights ffn_norm;
  FfnWeights ffn;
  LayerAdapters adapters;
};

// All weights of a model.
struct TransformerWeights {
  at::Tensor embedding;  // [V, D]
  at::Tensor positions;  // [sequence_length, D]; undefined without learned positions
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  at::Tensor head;  // [V, D]; the embedding itself when tied; [HeadWidth, D] of labels
  MixingWeights mixing;
  InputNoise noise;
};

// Returns views of flat arrays that have the FinetunedLayout of `finetuning`, which is resolved.
// When `gradients` is defined, the views of trained parameters are autograd leaves whose gradients
// accumulate in it.
TransformerWeights BindWeights(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                               const at::Tensor& values, const at::Tensor& gradients);

}  // namespace braid

#endif  // BRAID_MODEL_TRANSFORMER_WEIGHTS_H_
