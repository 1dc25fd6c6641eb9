#include "model/transformer_weights.h"

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "model/config/attention_config.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

// Looks up parameters in the flat arrays by name.
class Binder {
 public:
  Binder(std::vector<ParameterSpec> layout, const at::Tensor& values, const at::Tensor& gradients)
      : values_(values), gradients_(gradients) {
    for (ParameterSpec& spec : layout) specs_.insert({spec.name, std::move(spec)});
  }

  // Returns the leaf that starts at parameter `name`. Its shape may cover the parameters that
  // follow, as for q, k and v.
  at::Tensor Bind(const std::string& name, at::IntArrayRef shape) const {
    const auto found = specs_.find(name);
    BRAID_CHECK(found != specs_.end()) << name;
    const auto view = [&](const at::Tensor& flat, int64_t offset) {
      return flat.narrow(0, offset, c10::multiply_integers(shape)).view(shape).detach();
    };
    at::Tensor leaf = view(values_, found->second.offset);
    if (gradients_.defined() && found->second.trained) {
      leaf.set_requires_grad(true);
      // The gradient is set in advance, so that autograd adds to it in place and never replaces the
      // buffer.
      leaf.mutable_grad() = view(gradients_, found->second.gradient_offset);
    }
    return leaf;
  }

  at::Tensor Bind(const std::string& name) const { return Bind(name, specs_.at(name).shape); }

 private:
  at::Tensor values_, gradients_;
  std::unordered_map<std::string, ParameterSpec> specs_;
};

void BindRouter(const v1::ModelConfig& config, const Binder& binder, const std::string& prefix,
                FfnWeights* w) {
  const v1::RoutingConfig& routing = config.routing();
  if (routing.token().centered_input()) w->input_mean = binder.Bind(prefix + kInputMean);
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
  const bool gpt2 = IsGpt2(config);
  const int64_t kinds = NumFfnMatrices(config) - 1;
  const std::string first = gpt2 ? "up_proj.weight" : "gate_proj.weight";
  if (gpt2) w.down_bias = binder.Bind(prefix + "down_proj.bias", {d});
  if (LearnsDropout(config)) w.dropout_logit = binder.Bind(prefix + "dropout.logit", {1});
  if (IsMoeLayer(config, layer)) {
    const int64_t units = ExpertWidth(config);
    BindRouter(config, binder, prefix + "router.", &w);
    w.gate_up = binder.Bind(prefix + "experts." + first, {kinds, e, units, d});
    w.down = binder.Bind(prefix + "experts.down_proj.weight_t", {e, units, d});
    if (gpt2) w.up_bias = binder.Bind(prefix + "experts.up_proj.bias", {e, units});
  } else {
    w.gate_up = binder.Bind(prefix + first, {kinds * f, d});
    w.down = binder.Bind(prefix + "down_proj.weight_t", {f, d});
    if (gpt2) w.up_bias = binder.Bind(prefix + "up_proj.bias", {f});
  }
  return w;
}

// Binds the norm `prefix` of the residual stream.
NormWeights BindNorm(const v1::ModelConfig& config, const Binder& binder,
                     const std::string& prefix) {
  NormWeights norm{.weight = binder.Bind(prefix + ".weight"), .bias = {}};
  if (IsGpt2(config)) norm.bias = binder.Bind(prefix + ".bias");
  return norm;
}

LayerWeights BindLayer(const v1::ModelConfig& config, const Binder& binder, int layer) {
  const std::string prefix = LayerPrefix(layer);
  const std::string attention = prefix + "self_attn.";
  const AttentionHeads heads = HeadsOf(config);
  const int64_t d = config.d_model();
  LayerWeights w;
  w.attention_norm = BindNorm(config, binder, prefix + "input_layernorm");
  w.qkv = binder.Bind(attention + "q_proj.weight", {heads.qkv_width(), d});
  if (config.qkv_bias()) w.qkv_bias = binder.Bind(attention + "q_proj.bias", {heads.qkv_width()});
  if (config.qk_norm()) {
    w.query_norm = binder.Bind(attention + "q_norm.weight", {heads.width});
    w.key_norm = binder.Bind(attention + "k_norm.weight", {heads.width});
  }
  w.attention_output = binder.Bind(attention + "o_proj.weight", {d, heads.query_width()});
  if (IsGpt2(config)) w.attention_output_bias = binder.Bind(attention + "o_proj.bias", {d});
  w.ffn_norm = BindNorm(config, binder, prefix + "post_attention_layernorm");
  w.ffn = BindFfn(config, binder, layer);
  return w;
}

// Returns the array of `adapters` that holds the matrix of `target`, and its first row there.
// `gate_rows` precede up.
std::pair<Adapters*, int64_t> PlaceOf(const std::string& target, const AttentionHeads& heads,
                                      int64_t gate_rows, LayerAdapters* adapters) {
  if (target == "q") return {&adapters->qkv, 0};
  if (target == "k") return {&adapters->qkv, heads.query_width()};
  if (target == "v") return {&adapters->qkv, heads.query_width() + heads.key_value_width()};
  if (target == "o") return {&adapters->attention_output, 0};
  if (target == "gate") return {&adapters->gate_up, 0};
  if (target == "up") return {&adapters->gate_up, gate_rows};
  return {&adapters->down, 0};
}

void BindAdapters(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                  const Binder& binder, std::vector<LayerWeights>* layers) {
  for (const AdapterSpec& spec : AdaptersOf(config, finetuning)) {
    LayerAdapters& layer = (*layers)[spec.layer].adapters;
    layer.dropout = finetuning.lora().dropout();
    const int64_t units = spec.experts > 0 ? ExpertWidth(config) : config.d_ff();
    const int64_t gate_rows = IsGpt2(config) ? 0 : units;
    const auto [adapters, first_row] = PlaceOf(spec.target, HeadsOf(config), gate_rows, &layer);
    adapters->scale = AdapterScale(finetuning.lora());
    adapters->parts.push_back({first_row, binder.Bind(spec.a), binder.Bind(spec.b)});
  }
}

MixingWeights BindMixing(const v1::ModelConfig& config, const Binder& binder) {
  MixingWeights w;
  if (config.layer_mixing().learn_alpha()) w.alpha = binder.Bind("model.layer_mixing.alpha");
  if (!HasMixingGate(config)) return w;
  for (const int layer : MixingLayers(config)) {
    const std::string prefix = MixingGatePrefix(config, layer);
    MixingGate& gate = w.gates.emplace_back();
    gate.weight = binder.Bind(prefix + "weight");
    if (config.layer_mixing().score() == v1::LayerMixing::COSINE) {
      gate.projection = binder.Bind(prefix + "projection.weight");
      gate.log_scale = binder.Bind(prefix + "log_scale");
    } else {
      gate.bias = binder.Bind(prefix + "bias");
    }
    if (!config.layer_mixing().own_gates()) break;
  }
  return w;
}

}  // namespace

TransformerWeights BindWeights(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                               const at::Tensor& values, const at::Tensor& gradients) {
  const Binder binder(FinetunedLayout(config, finetuning), values, gradients);
  const int64_t d = config.d_model(), v = config.vocab_size();
  TransformerWeights w;
  w.embedding = binder.Bind("model.embed_tokens.weight", {v, d});
  if (IsGpt2(config)) w.positions = binder.Bind(kPositionsName);
  for (int i = 0; i < config.num_layers(); ++i) w.layers.push_back(BindLayer(config, binder, i));
  BindAdapters(config, finetuning, binder, &w.layers);
  w.final_norm = BindNorm(config, binder, "model.norm");
  w.mixing = BindMixing(config, binder);
  if (config.has_label_head()) {
    w.head = binder.Bind(kLabelHead);
  } else {
    w.head = config.tie_embeddings() ? w.embedding : binder.Bind("lm_head.weight", {v, d});
  }
  return w;
}

}  // namespace braid
