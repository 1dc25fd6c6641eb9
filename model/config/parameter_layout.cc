#include "model/config/parameter_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/config/attention_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

constexpr char kMixingGroup[] = "layer_mixing";
// The initial temperature of the score COSINE, as that of the gate COSINE of experts.
constexpr double kMixingTemperature = 0.3;
// As initializer_range of Hugging Face LLaMA, whatever the weights below the head began with.
constexpr double kLabelHeadStd = 0.02;
// Offsets stop here instead of overflowing, so that ResolveModelConfig can refuse a layout that is
// too large. One parameter has at most 2^60 elements: kMaxExtent is 2^24, and there are at most
// 2^12 experts.
constexpr int64_t kLastOffset = int64_t{1} << 62;

// Appends parameters one after the other.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(const v1::ModelConfig& config) : config_(config) {}

  // Appends the norm `prefix` of the residual stream: "<prefix>.weight" and a bias if it has one.
  void AddNorm(const std::string& prefix) {
    AddNorm(prefix + ".weight", config_.d_model());
    if (IsGpt2(config_)) AddBias(prefix + ".bias", "norm", config_.d_model());
  }
  void AddNorm(const std::string& name, int64_t width) { Add(name, "norm", {width}, 0); }

  void AddBias(const std::string& name, const std::string& group, int64_t width) {
    Add(name, group, {width}, 0);
    specs_.back().initial_value = 0;
  }

  void AddScalar(const std::string& name, const std::string& group, double value) {
    Add(name, group, {1}, 0);
    specs_.back().initial_value = static_cast<float>(value);
  }

  // Appends a matrix with `fan_in` inputs; `residual` matrices add to the residual stream.
  void AddMatrix(const std::string& name, const std::string& group, std::vector<int64_t> shape,
                 double fan_in, bool residual = false) {
    double std = 0.02;
    if (config_.initialization() != v1::NORMAL_002) {
      std = 1 / std::sqrt(fan_in);
      if (residual) std /= std::sqrt(2.0 * config_.num_layers());
    }
    Add(name, group, std::move(shape), std);
  }

  void Add(const std::string& name, const std::string& group, std::vector<int64_t> shape,
           double std, bool trained = true) {
    int64_t size = 1;
    for (int64_t extent : shape) size *= extent;
    specs_.push_back({.name = name,
                      .group = group,
                      .shape = std::move(shape),
                      .offset = offset_,
                      .size = size,
                      .initial_std = std,
                      .trained = trained,
                      .gradient_offset = offset_});
    offset_ = std::min(offset_ + size, kLastOffset);
  }

  // Sets whether the last parameter is trained.
  void SetTrained(bool trained) { specs_.back().trained = trained; }

  std::vector<ParameterSpec> Take() { return std::move(specs_); }

 private:
  const v1::ModelConfig& config_;
  std::vector<ParameterSpec> specs_;
  int64_t offset_ = 0;
};

void AddRouter(const v1::ModelConfig& config, const std::string& prefix, LayoutBuilder* layout) {
  const v1::RoutingConfig& routing = config.routing();
  if (routing.token().centered_input()) {
    layout->AddBias(prefix + kInputMean, "router", config.d_model());
    layout->SetTrained(false);
  }
  if (!HasRouterMatrix(routing)) return;
  const double std = routing.router_init_std();
  const int64_t width = RouterWidth(config);
  layout->Add(prefix + "weight", "router", {routing.num_experts(), width}, std,
              /*trained=*/routing.token().gate() != v1::TokenRouting::FROZEN);
  if (!ProjectsRouterInput(routing)) return;
  layout->Add(prefix + "projection.weight", "router", {width, config.d_model()}, std);
  layout->AddScalar(prefix + "log_scale", "router", -std::log(routing.token().temperature()));
}

// Appends the logit of a learned rate of dropout.
void AddDropout(const v1::ModelConfig& config, const std::string& prefix, LayoutBuilder* layout) {
  if (!LearnsDropout(config)) return;
  const double rate = config.dropout().rate();
  layout->AddScalar(prefix + "dropout.logit", "dropout", std::log(rate / (1 - rate)));
}

void AddFfn(const v1::ModelConfig& config, int layer, LayoutBuilder* layout) {
  const std::string prefix = LayerPrefix(layer) + "mlp.";
  const int64_t d = config.d_model(), f = config.d_ff();
  const int64_t e = config.routing().num_experts();
  const bool gpt2 = IsGpt2(config);
  if (!IsMoeLayer(config, layer)) {
    if (!gpt2) layout->AddMatrix(prefix + "gate_proj.weight", "ffn", {f, d}, d);
    layout->AddMatrix(prefix + "up_proj.weight", "ffn", {f, d}, d);
    if (gpt2) layout->AddBias(prefix + "up_proj.bias", "ffn", f);
    layout->AddMatrix(prefix + "down_proj.weight_t", "ffn", {f, d}, f, /*residual=*/true);
    if (gpt2) layout->AddBias(prefix + "down_proj.bias", "ffn", d);
    return;
  }
  const v1::RoutingConfig& routing = config.routing();
  AddRouter(config, prefix + "router.", layout);
  const int64_t units = ExpertWidth(config);
  // Outputs with weights of 1 add up to those of one FFN with the units of all experts.
  const bool adds_up = routing.token().combine_weights() == v1::TokenRouting::ONES;
  const auto fan_in = static_cast<double>(adds_up ? e * units : units);
  if (!gpt2) layout->AddMatrix(prefix + "experts.gate_proj.weight", "ffn", {e, units, d}, d);
  layout->AddMatrix(prefix + "experts.up_proj.weight", "ffn", {e, units, d}, d);
  if (gpt2) layout->AddBias(prefix + "experts.up_proj.bias", "ffn", e * units);
  layout->AddMatrix(prefix + "experts.down_proj.weight_t", "ffn", {e, units, d}, fan_in,
                    /*residual=*/true);
  // All experts share the output bias, which is added once.
  if (gpt2) layout->AddBias(prefix + "down_proj.bias", "ffn", d);
}

void AddAttention(const v1::ModelConfig& config, const std::string& prefix, LayoutBuilder* layout) {
  const AttentionHeads heads = HeadsOf(config);
  const int64_t d = config.d_model(), query = heads.query_width(), key = heads.key_value_width();
  const std::pair<const char*, int64_t> projections[] = {
      {"q_proj", query}, {"k_proj", key}, {"v_proj", key}};
  for (const auto& [name, width] : projections) {
    layout->AddMatrix(prefix + name + ".weight", "attention", {width, d}, d);
  }
  for (const auto& [name, width] : projections) {
    if (config.qkv_bias()) layout->AddBias(prefix + name + ".bias", "attention", width);
  }
  if (config.qk_norm()) {
    layout->AddNorm(prefix + "q_norm.weight", heads.width);
    layout->AddNorm(prefix + "k_norm.weight", heads.width);
  }
  layout->AddMatrix(prefix + "o_proj.weight", "attention", {d, query}, query, /*residual=*/true);
  if (IsGpt2(config)) layout->AddBias(prefix + "o_proj.bias", "attention", d);
}

// Appends the gate that chooses among the mixing layers.
void AddMixingGate(const v1::ModelConfig& config, const std::string& prefix,
                   LayoutBuilder* layout) {
  const v1::LayerMixing& mixing = config.layer_mixing();
  const bool trained = mixing.gate() == v1::LayerMixing::LEARNED;
  const auto layers = static_cast<int64_t>(MixingLayers(config).size());
  const bool cosine = mixing.score() == v1::LayerMixing::COSINE;
  const int64_t d = config.d_model(), width = cosine ? mixing.projection_width() : d;
  const auto std_of = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  layout->Add(prefix + "weight", kMixingGroup, {layers, width}, std_of(width), trained);
  if (!cosine) {
    layout->AddBias(prefix + "bias", kMixingGroup, layers);
    layout->SetTrained(trained);
    return;
  }
  layout->Add(prefix + "projection.weight", kMixingGroup, {width, d}, std_of(d), trained);
  layout->AddScalar(prefix + "log_scale", kMixingGroup, -std::log(kMixingTemperature));
  layout->SetTrained(trained);
}

// Changes a layout of FAN_IN to WIDTH_SCALED (arXiv 2203.03466, table 3), where a model of the
// width base_width has all its widths in proportion. A step of AdamW moves each element of a matrix
// by about the learning rate, and the moves of a row agree with its inputs, so outputs move by fan
// in times the rate: that product is kept. The embedding selects one row and has no such sum.
// Outputs that are as many at every width (of the head, routers and trained gates) also begin
// smaller, so that their gradients to the hidden states do not grow: the head with zeros, the
// others, which must tell experts apart, in proportion to 1 / fan in. As in the paper's package,
// weight decay keeps the rate of the base width.
void ScaleByWidth(const v1::ModelConfig& config, std::vector<ParameterSpec>* layout) {
  const double ratio = static_cast<double>(config.d_model()) / config.base_width();
  for (ParameterSpec& spec : *layout) {
    if (spec.shape.size() < 2) continue;
    if (spec.group == "embedding") {
      spec.initial_std *= std::sqrt(ratio);
      continue;
    }
    spec.rate_factor = 1 / ratio;
    if (spec.group == "head") {
      spec.initial_std = 0;
      spec.initial_value = 0;
    } else if (spec.group == "router") {
      // Scores of a gate that is never trained keep their spread.
      spec.initial_std /= spec.trained ? ratio : std::sqrt(ratio);
    } else if (spec.group == kMixingGroup) {
      spec.initial_std /= spec.trained ? std::sqrt(ratio) : 1;
    }
  }
}

// Appends what all mixing layers share.
void AddLayerMixing(const v1::ModelConfig& config, LayoutBuilder* layout) {
  const v1::LayerMixing& mixing = config.layer_mixing();
  if (HasMixingGate(config) && !mixing.own_gates()) {
    AddMixingGate(config, MixingGatePrefix(config, 0), layout);
  }
  if (mixing.learn_alpha()) {
    layout->AddScalar("model.layer_mixing.alpha", kMixingGroup, mixing.alpha());
  }
}

void AddLayer(const v1::ModelConfig& config, int layer, LayoutBuilder* layout) {
  const std::string prefix = LayerPrefix(layer);
  layout->AddNorm(prefix + "input_layernorm");
  AddAttention(config, prefix + "self_attn.", layout);
  layout->AddNorm(prefix + "post_attention_layernorm");
  AddFfn(config, layer, layout);
  AddDropout(config, prefix + "mlp.", layout);
  if (!HasMixingGate(config) || !config.layer_mixing().own_gates()) return;
  if (std::ranges::count(MixingLayers(config), layer) > 0) {
    AddMixingGate(config, MixingGatePrefix(config, layer), layout);
  }
}

}  // namespace

std::string LayerPrefix(int layer) { return "model.layers." + std::to_string(layer) + "."; }

std::string MixingGatePrefix(const v1::ModelConfig& resolved, int layer) {
  return (resolved.layer_mixing().own_gates() ? LayerPrefix(layer) : std::string("model.")) +
         "layer_mixing.gate.";
}

bool IsHiddenMatrix(const ParameterSpec& spec) {
  return spec.trained && spec.gradient_offset >= 0 && spec.shape.size() >= 2 &&
         (spec.group == "attention" || spec.group == "ffn");
}

std::vector<ParameterSpec> ParameterLayout(const v1::ModelConfig& resolved) {
  LayoutBuilder layout(resolved);
  const int64_t d = resolved.d_model(), v = resolved.vocab_size();
  layout.AddMatrix("model.embed_tokens.weight", "embedding", {v, d}, d);
  if (IsGpt2(resolved)) {
    const int64_t length = resolved.sequence_length();
    layout.AddMatrix(kPositionsName, "embedding", {length, d}, static_cast<double>(d));
  }
  AddLayerMixing(resolved, &layout);
  for (int layer = 0; layer < resolved.num_layers(); ++layer) AddLayer(resolved, layer, &layout);
  layout.AddNorm("model.norm");
  if (resolved.has_label_head()) {
    layout.Add(kLabelHead, "head", {HeadWidth(resolved), d}, kLabelHeadStd);
  } else if (!resolved.tie_embeddings()) {
    layout.AddMatrix("lm_head.weight", "head", {v, d}, d);
  }
  std::vector<ParameterSpec> specs = layout.Take();
  if (resolved.initialization() == v1::WIDTH_SCALED) ScaleByWidth(resolved, &specs);
  return specs;
}

}  // namespace braid
