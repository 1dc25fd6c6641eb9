#include "model/transformer.h"

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/kernels/dense_ffn.h"
#include "model/kernels/rms_norm.h"
#include "model/routing/router.h"

namespace braid {
namespace {

// Looks up parameters in the flat array by name.
class Binder {
 public:
  Binder(const v1::ModelConfig& config, const at::Tensor& values, const at::Tensor& gradients)
      : values_(values), gradients_(gradients) {
    for (const ParameterSpec& spec : ParameterLayout(config)) {
      offsets_[spec.name] = spec.offset;
      if (!spec.trained) constants_.insert(spec.name);
    }
  }

  // Returns the leaf that starts at parameter `name`. Its shape may cover the parameters that
  // follow, as for q, k and v.
  at::Tensor Bind(const std::string& name, at::IntArrayRef shape) const {
    const auto found = offsets_.find(name);
    BRAID_CHECK(found != offsets_.end()) << name;
    const auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, found->second, c10::multiply_integers(shape)).view(shape).detach();
    };
    at::Tensor leaf = view(values_);
    if (gradients_.defined() && !constants_.contains(name)) {
      leaf.set_requires_grad(true);
      // The gradient is set in advance, so that autograd adds to it in place and never replaces the
      // buffer.
      leaf.mutable_grad() = view(gradients_);
    }
    return leaf;
  }

 private:
  at::Tensor values_, gradients_;
  std::unordered_map<std::string, int64_t> offsets_;
  std::unordered_set<std::string> constants_;
};

FfnWeights BindFfn(const v1::ModelConfig& config, const Binder& binder, int layer) {
  const std::string prefix = LayerPrefix(layer) + "mlp.";
  const int64_t d = config.d_model(), f = config.d_ff(), e = config.routing().num_experts();
  FfnWeights w;
  if (IsMoeLayer(config, layer)) {
    const int64_t units = ExpertWidth(config);
    if (HasRouterMatrix(config.routing())) w.router = binder.Bind(prefix + "router.weight", {e, d});
    w.gate_up = binder.Bind(prefix + "experts.gate_proj.weight", {2, e, units, d});
    w.down = binder.Bind(prefix + "experts.down_proj.weight_t", {e, units, d});
  } else {
    w.gate_up = binder.Bind(prefix + "gate_proj.weight", {2 * f, d});
    w.down = binder.Bind(prefix + "down_proj.weight_t", {f, d});
  }
  return w;
}

LayerWeights BindLayer(const v1::ModelConfig& config, const Binder& binder, int layer) {
  const std::string prefix = LayerPrefix(layer);
  const int64_t d = config.d_model();
  LayerWeights w;
  w.attention_norm = binder.Bind(prefix + "input_layernorm.weight", {d});
  w.qkv = binder.Bind(prefix + "self_attn.q_proj.weight", {3 * d, d});
  w.attention_output = binder.Bind(prefix + "self_attn.o_proj.weight", {d, d});
  w.ffn_norm = binder.Bind(prefix + "post_attention_layernorm.weight", {d});
  w.ffn = BindFfn(config, binder, layer);
  return w;
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
  return MakeAttentionTables(config.sequence_length(), config.num_heads(),
                             config.d_model() / config.num_heads(), config.rope_theta(), options);
}

HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens, MergeMode mode,
                            RoutingContext context) {
  const int64_t batch = tokens.size(0), length = tokens.size(1), d = config.d_model();
  const double epsilon = config.norm_epsilon();
  const LayerRouters routers(config);
  HiddenStates result;
  at::Tensor h = at::embedding(weights.embedding, tokens.flatten());
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const LayerWeights& w = weights.layers[layer];
    const at::Tensor qkv = at::mm(RmsNorm(h, w.attention_norm, epsilon), w.qkv.t());
    const at::Tensor mixed = CausalAttention(qkv.view({batch, length, 3 * d}), tables);
    h = at::addmm(h, mixed.view({-1, d}), w.attention_output.t());
    const at::Tensor x = RmsNorm(h, w.ffn_norm, epsilon);
    context.layer = layer;
    const RoutedFfn ffn = routers.Of(layer).AddFfn(
        h.view({batch, length, d}), x.view({batch, length, d}), w.ffn, mode, context);
    h = ffn.output.view({-1, d});
    if (ffn.weights.defined()) result.routing.push_back({layer, ffn.weights, ffn.chosen});
    if (ffn.balance_loss.defined()) {
      result.balance_loss =
          result.balance_loss.defined() ? result.balance_loss + ffn.balance_loss : ffn.balance_loss;
    }
  }
  result.hidden = RmsNorm(h, weights.final_norm, epsilon);
  return result;
}

}  // namespace braid
