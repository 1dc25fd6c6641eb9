#include "model/config/activation_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/attention_config.h"
#include "model/config/document_config.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/kernels/ffn_group_pass.h"
#include "model/kernels/head_chunks.h"
#include "model/kernels/routed_ffn_pass.h"

namespace braid {
namespace {

constexpr int64_t kFloat = sizeof(float);

struct LayerShape {
  int64_t tokens, width, hidden, vocabulary, segment, layers, moe_layers;
  AttentionHeads heads;
  bool qk_norm;
  // True when the output head is trained.
  bool trains_head;
  // TOKEN_CHOICE: experts, the most that a token uses (the gate RELU may choose them all), and the
  // units of one; 0 otherwise.
  int64_t experts, active, units;
  // Saved per token by a gate for its scores, beside its input.
  int64_t gate;
  // GPT2, whose FFNs are tensor operations.
  bool gpt2;
  // Arrays of hidden values that an FFN saves: two, and with dropout in a GPT2 its factors.
  int64_t hidden_arrays;
  // Chunks of logits that the head holds at once.
  int64_t logit_chunks;
  // True when segments begin with documents (routing.segment_boundaries DOCUMENT).
  bool by_document;
  // Passes through other layers that mix, and how many of them through layers with experts.
  int64_t mixed_layers = 0, mixed_moe_layers = 0;
  // Adapters in dense FFNs, which are then tensor operations, and of their down projections.
  bool adapted_ffn = false, adapted_down = false;
  // Elements of the gradients of one layer's experts that backward computes without a parameter for
  // them: with adapters, and where the routing of merged experts is trained but they are not.
  int64_t expert_gradients = 0;
};

// Returns LayerShape::gate: the centered input, and what normalizing projections to unit length and
// scaling their cosines saves.
int64_t GateFloats(const v1::ModelConfig& config) {
  const v1::TokenRouting& token = config.routing().token();
  int64_t floats = token.centered_input() ? config.d_model() : 0;
  if (token.gate() == v1::TokenRouting::COSINE) {
    floats += 2 * (RouterWidth(config) + config.routing().num_experts());
  }
  return floats;
}

LayerShape ShapeOf(const v1::ModelConfig& config, int64_t batch_size) {
  const bool chosen = config.routing().router() == v1::TOKEN_CHOICE;
  const v1::TokenRouting& token = config.routing().token();
  // Both passes of a consistency loss are held together.
  const int64_t passes = config.consistency_loss() > 0 ? 2 : 1;
  return {.tokens = passes * batch_size * config.sequence_length(),
          .width = config.d_model(),
          .hidden = config.d_ff(),
          .vocabulary = HeadWidth(config),
          .segment = config.routing().segment_length(),
          .layers = config.num_layers(),
          .moe_layers = static_cast<int64_t>(MoeLayers(config).size()),
          .heads = HeadsOf(config),
          .qk_norm = config.qk_norm(),
          .trains_head = true,
          .experts = chosen ? config.routing().num_experts() : 0,
          .active = !chosen                                  ? 0
                    : token.gate() == v1::TokenRouting::RELU ? config.routing().num_experts()
                                                             : token.active_experts(),
          .units = chosen ? token.expert_d_ff() : 0,
          .gate = chosen ? GateFloats(config) : 0,
          .gpt2 = IsGpt2(config),
          .hidden_arrays = IsGpt2(config) && config.has_dropout() ? 3 : 2,
          .logit_chunks = config.logit_soft_cap() > 0 ? 2 : 1,
          .by_document = !chosen && CutsAtDocuments(config.routing())};
}

// Saved per token for the norms of query and key heads: inputs and one number per head.
int64_t HeadNormFloats(const AttentionHeads& heads) {
  return (heads.query + heads.key_value) * (heads.width + 1);
}

// Saved per token of a layer: inputs and outputs of two norms (four times D), q, k and v, and the
// attention's output; gate and up projections, or the inputs and outputs of GELU; one number each
// for the two norms (two for LayerNorm) and for the softmax of every head.
int64_t LayerFloats(const LayerShape& s) {
  const int64_t attention = s.heads.qkv_width() + s.heads.query_width() + s.heads.query;
  const int64_t head_norms = s.qk_norm ? HeadNormFloats(s.heads) : 0;
  return s.tokens *
         (4 * s.width + attention + head_norms + s.hidden_arrays * s.hidden + (s.gpt2 ? 4 : 2));
}

// Saved for the router: the means of the segments, and what its softmax and norm save of them. With
// TOKEN_CHOICE: the pairs' gate and up projections instead of a dense FFN's, the chosen experts (32
// and 64 bits each) with their weights, and the softmax over all of them. The experts of a GPT2
// also save the pairs' inputs and outputs. With segments that begin with documents an upper bound:
// every token a segment, and as much padding as tokens.
int64_t RouterFloats(const LayerShape& s) {
  if (s.by_document) return s.tokens * (4 * s.width + 2 * s.hidden);
  if (s.active == 0) return s.tokens / s.segment * 2 * s.width;
  const int64_t pairs = s.gpt2 ? 2 * s.active * s.width : 0;
  return s.tokens * (s.hidden_arrays * (s.active * s.units - s.hidden) + 4 * s.active + s.experts +
                     s.gate + pairs);
}

// Returns whether the loss has a gradient in the gate of layers or in alpha.
bool HasMixingGradient(const v1::ModelConfig& config) {
  const v1::LayerMixing& mixing = config.layer_mixing();
  return mixing.learn_alpha() ||
         (HasMixingGate(config) && (mixing.weight() == v1::LayerMixing::PROBABILITY ||
                                    mixing.num_chosen() > 1 || mixing.balance_loss() > 0));
}

// Saved by layers that mix: what their second passes save, a number per token, and, where the
// weights have a gradient, the difference of both outputs with the scores of the gate. All
// sequences pass through a layer that is listed, and share its input with the first pass.
int64_t MixingFloats(const LayerShape& s, const v1::ModelConfig& config) {
  if (s.mixed_layers == 0) return 0;
  int64_t floats = 2;
  if (config.layer_mixing().gate() == v1::LayerMixing::FIXED) floats -= s.width;
  if (HasMixingGradient(config)) {
    floats += s.width + 3 * static_cast<int64_t>(MixingLayers(config).size());
  }
  return s.mixed_layers * (LayerFloats(s) + s.tokens * floats) +
         s.mixed_moe_layers * RouterFloats(s);
}

// Saved outside the layers: the embedded tokens (and their 64-bit ids), the last norm's output.
int64_t EndFloats(const LayerShape& s) { return s.tokens * (2 * s.width + 1) + 4 * s.tokens; }

// The temporaries of the backward pass of an FFN with adapters, in addition to what is saved: five
// arrays of hidden values in SwiGLU, two in GELU. What the end of the model saved is free by then,
// as are the hidden values that adapters of down saved.
int64_t AdaptedFfnFloats(const LayerShape& s) {
  const int64_t arrays = (s.gpt2 ? 2 : 5) - (s.adapted_down ? 1 : 0);
  return arrays * s.tokens * s.hidden;
}

// The peak of temporaries. The head's pass first holds the gradients of its two inputs and the
// logits of one chunk, twice with a soft cap, then the gradients twice (scaled). After that, the
// gradients of two consecutive layers exist at once, and those of the hidden values of a GPT2 or of
// an FFN with adapters, or those of experts that are not trained.
int64_t TransientFloats(const LayerShape& s) {
  const int64_t gradients = (s.tokens + (s.trains_head ? s.vocabulary : 0)) * s.width;
  const int64_t rows = std::min(s.tokens, HeadChunkTokens(s.vocabulary));
  const int64_t layer = s.adapted_ffn ? AdaptedFfnFloats(s)
                        : s.gpt2      ? s.tokens * 2 * (s.width + s.hidden)
                                      : 0;
  const int64_t experts = s.expert_gradients > 0 ? s.expert_gradients + 2 * s.tokens * s.width : 0;
  return std::max(
      {gradients + s.logit_chunks * rows * s.vocabulary, 2 * gradients, layer, experts});
}

int64_t ScratchFloats(const LayerShape& s) {
  const int64_t tokens = std::min(s.tokens, kMaxTokensPerGroup);
  const int64_t segments =
      s.moe_layers > 0 ? std::min(kMaxSegmentsPerGroup, std::max<int64_t>(1, tokens / s.segment))
                       : 1;
  const int64_t rows = std::min(s.hidden, kMaxTileRows);
  const int64_t merged = std::min(kMergedBudget, segments * 3 * rows * s.width);
  int64_t ffn = 4 * tokens * s.width + 2 * merged + 3 * rows * tokens;
  if (s.active > 0) {
    // The output rows of a phase's pairs, and two slabs of rows beside a tile (routed_ffn.cc).
    const int64_t pairs = std::min<int64_t>(s.tokens * s.active, kPhasePairs);
    ffn = std::max(ffn, pairs * s.width + 2 * std::min<int64_t>(pairs, kSlabPairs) * s.width);
    // Instead, for experts of few units: d(gate) and d(up) of a group's pairs, and packed rows.
    const int64_t group = std::max(kGroupTokens, kPhasePairs / s.active);
    const int64_t group_pairs = std::min(s.tokens, group) * s.active;
    const RoutedFfnShape routed = {s.tokens, s.width, s.units, s.experts, s.active};
    if (ProductsByToken::Suits(routed, group_pairs)) {
      ffn = std::max(
          ffn, 2 * s.units * group_pairs + ProductsByToken::PackedSize(routed, group_pairs, 2));
    }
  }
  // Forward holds q, k and v; backward, at most, the gradients of k and v of every query head.
  const int64_t partial = s.heads.group() > 1 ? 2 * s.heads.query_width() : 0;
  const int64_t attention = s.tokens * std::max(s.heads.qkv_width(), partial);
  return std::max(ffn, attention);
}

// Saved by adapters: the experts' weights with theirs added; otherwise the adapters as arrays of
// their input, and their inner activations; and the hidden activations of an FFN with adapters,
// which is not fused, for those of down.
int64_t AdapterFloats(const LayerShape& s, const v1::ModelConfig& config,
                      const v1::Finetuning& finetuning, std::span<const double> mixed) {
  double floats = 0;
  int gate_layer = -1;
  const int64_t rank = finetuning.lora().rank();
  for (const AdapterSpec& adapter : AdaptersOf(config, finetuning)) {
    const double passes = 1 + mixed[adapter.layer];
    if (adapter.experts > 0) {
      // gate and up are one array, of which the first target makes a copy.
      const bool both = adapter.target != "down" && !s.gpt2;
      if (adapter.target == "up" && gate_layer == adapter.layer) continue;
      if (adapter.target == "gate") gate_layer = adapter.layer;
      floats +=
          passes * static_cast<double>((both ? 2 : 1) * adapter.experts * adapter.out * adapter.in);
      continue;
    }
    floats += passes * static_cast<double>(rank * (s.tokens + adapter.in + adapter.out));
    if (adapter.target == "down" && !s.gpt2) {
      floats += passes * static_cast<double>(s.tokens * s.hidden);
    }
  }
  return static_cast<int64_t>(std::ceil(floats));
}

// What is trained in a layer, weights or their adapters.
struct TrainedParts {
  bool input_norm = false, qkv = false, output = false, ffn_norm = false, up = false, down = false;
  bool ffn_adapters = false;
};

std::vector<TrainedParts> TrainedPartsOf(const v1::ModelConfig& config,
                                         const v1::Finetuning& finetuning) {
  std::vector<TrainedParts> layers(static_cast<size_t>(config.num_layers()));
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    for (int layer = 0; spec.trained && layer < config.num_layers(); ++layer) {
      const std::string prefix = LayerPrefix(layer);
      if (!spec.name.starts_with(prefix)) continue;
      const std::string_view part = std::string_view(spec.name).substr(prefix.size());
      TrainedParts& parts = layers[static_cast<size_t>(layer)];
      const bool ffn = part.starts_with("mlp."), down = part.starts_with("mlp.down_proj.");
      parts.input_norm |= part.starts_with("input_layernorm.");
      parts.output |= part.starts_with("self_attn.o_proj.");
      parts.qkv |= part.starts_with("self_attn.") && !part.starts_with("self_attn.o_proj.");
      parts.ffn_norm |= part.starts_with("post_attention_layernorm.");
      parts.up |= ffn && !down;
      parts.down |= down;
      parts.ffn_adapters |= ffn && spec.group == "adapter";
    }
  }
  return layers;
}

// Returns what a layer with a dense FFN saves less per token because frozen weights need no inputs:
// the outputs of its norms, and the hidden values of a GPT2.
int64_t FrozenFloats(const LayerShape& s, const TrainedParts& parts) {
  int64_t floats = parts.qkv ? 0 : s.width;
  if (!parts.up && (s.gpt2 || parts.ffn_adapters)) floats += s.width;
  if (!parts.down && s.gpt2) floats += s.hidden;
  return floats;
}

// The same for what lies between the input of the lowest layer that backward reaches and the lowest
// trained part, where nothing has a gradient.
int64_t UnreachedFloats(const LayerShape& s, const TrainedParts& parts) {
  if (parts.input_norm) return 0;
  const int64_t norm = s.width + (s.gpt2 ? 2 : 1);
  int64_t floats = norm;
  if (parts.qkv) return floats;
  floats += s.heads.qkv_width() + s.heads.query + (s.qk_norm ? HeadNormFloats(s.heads) : 0);
  if (parts.output) return floats;
  floats += s.heads.query_width() + (parts.ffn_norm ? 0 : norm);
  if (parts.ffn_norm || parts.up || !(s.gpt2 || parts.ffn_adapters)) return floats;
  return floats + (s.gpt2 ? 1 : 2) * s.hidden;
}

// Returns what a partly trained model saves less than LayerFloats in its layers from `reach` on.
int64_t UnsavedFloats(const LayerShape& s, const v1::ModelConfig& config,
                      const v1::Finetuning& finetuning, const BackwardReach& reach,
                      std::span<const double> mixed) {
  if (!IsPartial(finetuning)) return 0;
  bool embedding = false;
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    embedding |= spec.trained && spec.group == "embedding";
  }
  double floats = 0;
  const std::vector<TrainedParts> parts = TrainedPartsOf(config, finetuning);
  for (int layer = reach.first_layer; layer < config.num_layers(); ++layer) {
    const TrainedParts& own = parts[static_cast<size_t>(layer)];
    if (IsMoeLayer(config, layer)) continue;
    int64_t of_layer = FrozenFloats(s, own);
    if (layer == reach.first_layer && !embedding && MixesNothing(config)) {
      of_layer += UnreachedFloats(s, own);
    }
    floats += (1 + mixed[layer]) * static_cast<double>(s.tokens * of_layer);
  }
  return static_cast<int64_t>(floats);
}

// Returns LayerShape::expert_gradients for the layers from `first`.
int64_t ExpertGradients(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                        int first) {
  if (!IsPartial(finetuning)) return 0;
  std::set<int> layers;
  for (const AdapterSpec& adapter : AdaptersOf(config, finetuning)) {
    if (adapter.experts > 0) layers.insert(adapter.layer);
  }
  int64_t largest = 0;
  std::map<std::string, int64_t> floats;
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    const size_t experts = spec.name.find(".mlp.experts.");
    if (experts == std::string::npos || spec.group == "adapter" || spec.trained) continue;
    if (spec.shape.size() == 3) floats[spec.name.substr(0, experts)] += spec.size;
  }
  for (const int layer : MoeLayers(config)) {
    if (layer < first || (!layers.contains(layer) && !MergesExperts(config.routing()))) continue;
    const std::string prefix = LayerPrefix(layer);
    largest = std::max(largest, floats[prefix.substr(0, prefix.size() - 1)]);
  }
  return largest;
}

// Returns the first layer whose output depends, with a gradient, on a gate or on a trained alpha. A
// gate without a gradient saves nothing.
int FirstMixedLayer(const v1::ModelConfig& config) {
  if (MixesNothing(config) || !HasMixingGradient(config)) return config.num_layers();
  return MixingLayers(config)[0];
}

}  // namespace

BackwardReach BackwardReachOf(const v1::ModelConfig& config, const v1::Finetuning& finetuning) {
  if (!IsPartial(finetuning)) return {};
  BackwardReach reach{.first_layer = config.num_layers(), .trains_head = false};
  int& first = reach.first_layer;
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    if (!spec.trained) continue;
    if (spec.group == "embedding") first = 0;
    if (spec.group == "layer_mixing") {
      first = std::min(first, FirstMixedLayer(config));
      continue;
    }
    reach.trains_head |=
        spec.group == "head" || (spec.group == "embedding" && config.tie_embeddings());
    for (int layer = 0; layer < first; ++layer) {
      if (spec.name.starts_with(LayerPrefix(layer))) first = layer;
    }
  }
  // Any mixing layer may pass through that layer.
  if (MixesNothing(config) || first == config.num_layers()) return reach;
  first = std::min(first, MixingLayers(config)[0]);
  return reach;
}

ActivationMemory ActivationsOf(const v1::ModelConfig& resolved, int64_t batch_size,
                               const v1::Finetuning& finetuning) {
  LayerShape shape = ShapeOf(resolved, batch_size);
  const std::vector<int> moe_layers = MoeLayers(resolved);
  const BackwardReach reach = BackwardReachOf(resolved, finetuning);
  const int first = reach.first_layer;
  shape.trains_head = reach.trains_head;
  shape.layers -= first;
  shape.moe_layers =
      std::ranges::count_if(moe_layers, [first](int layer) { return layer >= first; });
  for (const AdapterSpec& adapter : AdaptersOf(resolved, finetuning)) {
    if (adapter.experts > 0 || !IsFfnTarget(adapter.target)) continue;
    shape.adapted_ffn = true;
    shape.adapted_down |= adapter.target == "down";
  }
  shape.expert_gradients = ExpertGradients(resolved, finetuning, first);
  const std::vector<double> mixed = MixedPasses(resolved, first);
  double passes = 0, moe_passes = 0;
  for (int layer = 0; layer < resolved.num_layers(); ++layer) {
    passes += mixed[layer];
    if (IsMoeLayer(resolved, layer)) moe_passes += mixed[layer];
  }
  shape.mixed_layers = static_cast<int64_t>(std::ceil(passes));
  shape.mixed_moe_layers = static_cast<int64_t>(std::ceil(moe_passes));
  const int64_t kept =
      shape.layers * LayerFloats(shape) + AdapterFloats(shape, resolved, finetuning, mixed) -
      UnsavedFloats(shape, resolved, finetuning, reach, mixed) + MixingFloats(shape, resolved) +
      shape.moe_layers * RouterFloats(shape) + EndFloats(shape);
  return {.kept_bytes = kFloat * kept,
          .transient_bytes = kFloat * TransientFloats(shape),
          .scratch_bytes = kFloat * ScratchFloats(shape)};
}

}  // namespace braid
