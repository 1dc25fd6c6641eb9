#include "model/transformer.h"

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/config/rotary_frequencies.h"
#include "model/document_mask.h"
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

void BindRouter(const v1::ModelConfig& config, const Binder& binder, const std::string& prefix,
                FfnWeights* w) {
  const v1::RoutingConfig& routing = config.routing();
  if (!HasRouterMatrix(routing)) return;
  w->router = binder.Bind(prefix + "weight", {routing.num_experts(), RouterWidth(config)});
  if (!ProjectsRouterInput(routing)) return;
  w->router_projection =
      binder.Bind(prefix + "projection.weight", {RouterWidth(config), config.d_model()});
  w->router_scale = binder.Bind(prefix + "log_scale", {1});
}

FfnWeights BindFfn(const v1::ModelConfig& config, const Binder& binder, int layer) {
  const std::string prefix = LayerPrefix(layer) + "mlp.";
  const int64_t d = config.d_model(), f = config.d_ff(), e = config.routing().num_experts();
  FfnWeights w;
  w.layer = layer;
  if (LearnsDropout(config)) w.dropout_logit = binder.Bind(prefix + "dropout.logit", {1});
  if (IsMoeLayer(config, layer)) {
    const int64_t units = ExpertWidth(config);
    BindRouter(config, binder, prefix + "router.", &w);
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
  const std::string attention = prefix + "self_attn.";
  const AttentionHeads heads = HeadsOf(config);
  const int64_t d = config.d_model();
  LayerWeights w;
  w.attention_norm = binder.Bind(prefix + "input_layernorm.weight", {d});
  w.qkv = binder.Bind(attention + "q_proj.weight", {heads.qkv_width(), d});
  if (config.qkv_bias()) w.qkv_bias = binder.Bind(attention + "q_proj.bias", {heads.qkv_width()});
  if (config.qk_norm()) {
    w.query_norm = binder.Bind(attention + "q_norm.weight", {heads.width});
    w.key_norm = binder.Bind(attention + "k_norm.weight", {heads.width});
  }
  w.attention_output = binder.Bind(attention + "o_proj.weight", {d, heads.query_width()});
  w.ffn_norm = binder.Bind(prefix + "post_attention_layernorm.weight", {d});
  w.ffn = BindFfn(config, binder, layer);
  return w;
}

// Adds a loss that may be undefined to a sum that is undefined while it has no term.
void AddTo(const at::Tensor& loss, at::Tensor* sum) {
  if (loss.defined()) *sum = sum->defined() ? *sum + loss : loss;
}

// Normalizes every head of x [T, heads * hd].
at::Tensor NormalizeHeads(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm(x.reshape({-1, weight.size(0)}), weight, epsilon).view(x.sizes());
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
  const AttentionHeads heads = HeadsOf(config);
  return MakeAttentionTables(
      config.sequence_length(), heads,
      RotaryFrequencies(heads.width, config.rope_theta(), config.rope_scaling()), options);
}

at::Tensor ProjectQkv(const v1::ModelConfig& config, const LayerWeights& weights,
                      const at::Tensor& h) {
  const double epsilon = config.norm_epsilon();
  const at::Tensor x = RmsNorm(h, weights.attention_norm, epsilon);
  const at::Tensor qkv = weights.qkv_bias.defined()
                             ? at::addmm(weights.qkv_bias, x, weights.qkv.t())
                             : at::mm(x, weights.qkv.t());
  if (!weights.query_norm.defined()) return qkv;
  const AttentionHeads heads = HeadsOf(config);
  const int64_t query = heads.query_width(), key = heads.key_value_width();
  return at::cat({NormalizeHeads(qkv.narrow(1, 0, query), weights.query_norm, epsilon),
                  NormalizeHeads(qkv.narrow(1, query, key), weights.key_norm, epsilon),
                  qkv.narrow(1, query + key, key)},
                 1);
}

HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens, MergeMode mode,
                            RoutingContext context) {
  const int64_t batch = tokens.size(0), length = tokens.size(1), d = config.d_model();
  const double epsilon = config.norm_epsilon();
  const LayerRouters routers(config);
  const at::Tensor first_visible = FirstVisible(config, tokens);
  context.tokens = tokens;
  if (mode == MergeMode::kTraining && config.has_dropout()) context.dropout = &config.dropout();
  HiddenStates result;
  at::Tensor h = at::embedding(weights.embedding, tokens.flatten());
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const LayerWeights& w = weights.layers[layer];
    const at::Tensor qkv = ProjectQkv(config, w, h).view({batch, length, -1});
    const at::Tensor mixed = CausalAttention(qkv, tables, first_visible);
    h = at::addmm(h, mixed.flatten(0, 1), w.attention_output.t());
    const at::Tensor x = RmsNorm(h, w.ffn_norm, epsilon);
    context.layer = layer;
    const RoutedFfn ffn = routers.Of(layer).AddFfn(
        h.view({batch, length, d}), x.view({batch, length, d}), w.ffn, mode, context);
    h = ffn.output.view({-1, d});
    if (ffn.weights.defined()) result.routing.push_back({layer, ffn.weights, ffn.chosen});
    AddTo(ffn.balance_loss, &result.balance_loss);
    AddTo(ffn.dropout_loss, &result.dropout_loss);
  }
  result.hidden = RmsNorm(h, weights.final_norm, epsilon);
  return result;
}

}  // namespace braid
