#include "trainer/model/transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "formats/check.h"
#include "trainer/kernels/dense_ffn.h"
#include "trainer/kernels/rms_norm.h"
#include "trainer/kernels/soft_merge.h"
#include "trainer/model/parameter_layout.h"
#include "trainer/model/segment_router.h"
#include "trainer/model_config.h"

namespace braid {
namespace {

// Finds parameters in the flat array by name.
class Binder {
 public:
  Binder(const v1::ModelConfig& config, const at::Tensor& values, const at::Tensor& gradients)
      : values_(values), gradients_(gradients) {
    for (const ParameterSpec& spec : ParameterLayout(config)) offsets_[spec.name] = spec.offset;
  }

  // The leaf that starts at parameter `name`; its shape may span the parameters
  // behind it.
  at::Tensor Bind(const std::string& name, at::IntArrayRef shape) const {
    const auto found = offsets_.find(name);
    BRAID_CHECK(found != offsets_.end()) << name;
    const auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, found->second, c10::multiply_integers(shape)).view(shape).detach();
    };
    at::Tensor leaf = view(values_);
    if (gradients_.defined()) {
      leaf.set_requires_grad(true);
      // Preset, so that autograd adds in place and never replaces the buffer.
      leaf.mutable_grad() = view(gradients_);
    }
    return leaf;
  }

 private:
  at::Tensor values_, gradients_;
  std::unordered_map<std::string, int64_t> offsets_;
};

LayerWeights BindLayer(const v1::ModelConfig& config, const Binder& binder, int layer) {
  const std::string prefix = LayerPrefix(layer);
  const int64_t d = config.d_model(), f = config.d_ff(), e = config.routing().num_experts();
  LayerWeights w;
  w.attention_norm = binder.Bind(prefix + "input_layernorm.weight", {d});
  w.qkv = binder.Bind(prefix + "self_attn.q_proj.weight", {3 * d, d});
  w.attention_output = binder.Bind(prefix + "self_attn.o_proj.weight", {d, d});
  w.ffn_norm = binder.Bind(prefix + "post_attention_layernorm.weight", {d});
  if (UsesExperts(config)) {
    w.router = binder.Bind(prefix + "mlp.router.weight", {e, d});
    w.gate_up = binder.Bind(prefix + "mlp.experts.gate_proj.weight", {2, e, f, d});
    w.down = binder.Bind(prefix + "mlp.experts.down_proj.weight_t", {e, f, d});
  } else {
    w.gate_up = binder.Bind(prefix + "mlp.gate_proj.weight", {2 * f, d});
    w.down = binder.Bind(prefix + "mlp.down_proj.weight_t", {f, d});
  }
  return w;
}

// How a batch is cut: `length` is a whole number of segments for expert models.
struct BatchShape {
  int64_t batch, length, segment, first_tokens;
};

BatchShape CutBatch(const v1::ModelConfig& config, const at::Tensor& tokens) {
  const int64_t length = tokens.size(1), segment = config.routing().segment_length();
  const int64_t padded = UsesExperts(config) ? (length + segment - 1) / segment * segment : length;
  return {tokens.size(0), padded, segment, std::min(segment, length)};
}

at::Tensor ExpertFfn(const v1::ModelConfig& config, const LayerWeights& w, const at::Tensor& x,
                     const BatchShape& shape, MergeMode mode, std::vector<at::Tensor>* routing) {
  const int64_t d = x.size(1), e = w.router.size(0), n = shape.length / shape.segment;
  const at::Tensor segments = x.view({shape.batch, n, shape.segment, d});
  const SoftExperts experts{w.gate_up, w.down};
  if (mode == MergeMode::kPrompt) {
    const at::Tensor weights =
        RoutePrompts(segments, w.router, config.routing(), shape.first_tokens);
    routing->push_back(weights.unsqueeze(1).expand({shape.batch, n, e}));
    return SoftMergeFfn(x.view({shape.batch, shape.length, d}), weights, experts).view({-1, d});
  }
  const at::Tensor weights =
      RouteSegments(segments, w.router, config.routing(), shape.first_tokens);
  routing->push_back(weights.detach());
  return SoftMergeFfn(segments.flatten(0, 1), weights.view({-1, e}), experts).view({-1, d});
}

}  // namespace

TransformerWeights BindWeights(const v1::ModelConfig& config, const at::Tensor& values,
                               const at::Tensor& gradients) {
  const Binder binder(config, values, gradients);
  const int64_t d = config.d_model(), v = config.vocab_size();
  TransformerWeights w;
  w.embedding = binder.Bind("model.embed_tokens.weight", {v, d});
  for (int i = 0; i < config.num_layers(); ++i) w.layers.push_back(BindLayer(config, binder, i));
  w.final_norm = binder.Bind("model.norm.weight", {d});
  w.head = config.tie_embeddings() ? w.embedding : binder.Bind("lm_head.weight", {v, d});
  return w;
}

AttentionTables TablesFor(const v1::ModelConfig& config, const at::TensorOptions& options) {
  // A partial last segment is filled up, so positions go to the next multiple.
  const int64_t segment = config.routing().segment_length();
  const int64_t length = (config.sequence_length() + segment - 1) / segment * segment;
  return MakeAttentionTables(length, config.num_heads(), config.d_model() / config.num_heads(),
                             config.rope_theta(), options);
}

HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens,
                            MergeMode mode) {
  const BatchShape shape = CutBatch(config, tokens);
  const int64_t d = config.d_model(), length = tokens.size(1);
  const double epsilon = config.norm_epsilon();
  // Causality keeps the filling from reaching any position that is asked for.
  const at::Tensor filled = at::constant_pad_nd(tokens, {0, shape.length - length});
  HiddenStates result;
  at::Tensor h = at::embedding(weights.embedding, filled.flatten());
  for (const LayerWeights& w : weights.layers) {
    const at::Tensor qkv = at::mm(RmsNorm(h, w.attention_norm, epsilon), w.qkv.t());
    const at::Tensor mixed = CausalAttention(qkv.view({shape.batch, shape.length, 3 * d}), tables);
    h = at::addmm(h, mixed.view({-1, d}), w.attention_output.t());
    const at::Tensor x = RmsNorm(h, w.ffn_norm, epsilon);
    if (w.router.defined()) {
      h = ExpertFfn(config, w, x, shape, mode, &result.routing).add_(h);
    } else {
      h = DenseFfn(x, w.gate_up, w.down).add_(h);
    }
  }
  if (shape.length != length) {
    h = h.view({shape.batch, shape.length, d}).narrow(1, 0, length).reshape({-1, d});
  }
  result.hidden = RmsNorm(h, weights.final_norm, epsilon);
  return result;
}

}  // namespace braid
