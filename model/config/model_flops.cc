#include "model/config/model_flops.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/activation_memory.h"
#include "model/config/attention_config.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

// Returns the size of the gates that choose layers, once for each layer that mixes.
double MixingGateSize(const v1::ModelConfig& config) {
  if (MixesNothing(config) || !HasMixingGate(config)) return 0;
  const double d = config.d_model();
  const auto layers = static_cast<double>(MixingLayers(config).size());
  if (config.layer_mixing().score() != v1::LayerMixing::COSINE) return layers * layers * d;
  return layers * config.layer_mixing().projection_width() * (d + layers);
}

// The work of a router, as multiples of the size of all experts or of the routers.
struct RouterRates {
  double passes = 0;  // experts that a position is multiplied by, divided by E
  double merges = 0;  // averages of all experts per position
  // Routing decisions per position. If one decision serves a whole segment, its cost is negligible
  // beside the segment's FFN and left out.
  double routed = 0;
};

// Returns the passes of expert choice: every expert takes ceil(decisions / E).
double ChoicePasses(int64_t decisions, int64_t experts) {
  const int64_t capacity = (decisions + experts - 1) / experts;
  return static_cast<double>(capacity) / static_cast<double>(decisions);
}

RouterRates RatesOf(const v1::ModelConfig& config, const DataMeans& data) {
  const int64_t length = config.sequence_length(), experts = config.routing().num_experts();
  const int64_t segments = length / config.routing().segment_length();
  const auto per_position = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(length);
  };
  switch (config.routing().router()) {
    case v1::CAUSAL_SEGMENT:
      return {1.0 / static_cast<double>(experts), data.segments.value_or(per_position(segments)),
              0};
    case v1::PREFIX: {
      // The first segment has its own average; all others share one.
      const int64_t merges = std::min<int64_t>(2, segments);
      return {1.0 / static_cast<double>(experts), per_position(merges), 0};
    }
    case v1::EXPERT_CHOICE_SEGMENT:
      return {ChoicePasses(segments, experts), 0, 0};
    case v1::EXPERT_CHOICE_TOKEN:
      return {ChoicePasses(length, experts), 0, 1};
    case v1::TOKEN_CHOICE: {
      const v1::TokenRouting& token = config.routing().token();
      const bool scored =
          token.gate() != v1::TokenRouting::RANDOM && token.gate() != v1::TokenRouting::HASH;
      const double active = data.active_experts.value_or(token.active_experts());
      return {active / static_cast<double>(experts), 0, scored ? 1.0 : 0.0};
    }
    default:
      return {};
  }
}

// Multiply-adds of one pass of a position through a layer, from its inputs to its outputs.
struct LayerWork {
  double qkv = 0;
  double scores = 0;  // and their product with the values
  double output = 0;
  double router = 0;
  double up = 0;  // and gate
  double down = 0;

  double total() const { return qkv + scores + output + router + up + down; }
};

LayerWork WorkOf(const v1::ModelConfig& config, const RouterRates& rates, bool has_experts,
                 double mean_keys) {
  const double d = config.d_model(), kinds = NumFfnMatrices(config);
  const AttentionHeads heads = HeadsOf(config);
  const double queries = static_cast<double>(heads.query_width());
  LayerWork work{.qkv = d * static_cast<double>(heads.qkv_width()),
                 .scores = 2 * queries * mean_keys,
                 .output = d * queries,
                 .up = (kinds - 1) * d * config.d_ff(),
                 .down = d * config.d_ff()};
  if (!has_experts) return work;
  const double experts = config.routing().num_experts();
  work.down = rates.passes * experts * d * static_cast<double>(ExpertWidth(config));
  work.up = (kinds - 1) * work.down;
  const double width = static_cast<double>(RouterWidth(config));
  const double projection = ProjectsRouterInput(config.routing()) ? d * width : 0;
  work.router = rates.routed * (experts * width + projection);
  return work;
}

// What is trained in a layer, in multiply-adds of one pass: the products whose gradients belong to
// parameters, and whether the gradient must pass through the layer's parts to reach them.
struct TrainedWork {
  double products = 0;
  double adapters = 0;  // the products of their forward pass
  bool at_input = false, in_qkv = false, in_output = false, in_up = false;
  bool in_experts = false;
};

// Returns the work of each layer that is partly trained.
std::vector<TrainedWork> TrainedWorkOf(const v1::ModelConfig& config,
                                       const v1::Finetuning& finetuning, const RouterRates& rates) {
  std::vector<TrainedWork> layers(static_cast<size_t>(config.num_layers()));
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    for (int layer = 0; layer < config.num_layers(); ++layer) {
      const std::string prefix = LayerPrefix(layer);
      if (!spec.name.starts_with(prefix) || spec.group == "layer_mixing") continue;
      const std::string_view part = std::string_view(spec.name).substr(prefix.size());
      const bool experts = part.starts_with("mlp.experts.");
      // The gradients of the weights with which experts are merged need those of the merged FFN.
      const bool needed = spec.trained || (experts && MergesExperts(config.routing()));
      if (!needed) continue;
      TrainedWork& work = layers[static_cast<size_t>(layer)];
      const double times = experts ? rates.passes : spec.group == "router" ? rates.routed : 1;
      const double products = spec.shape.size() > 1 ? times * static_cast<double>(spec.size) : 0;
      if (spec.group == "adapter") {
        work.adapters += products;
      } else {
        work.products += products;
      }
      if (!spec.trained) continue;
      const bool attention = part.starts_with("self_attn."),
                 output = part.starts_with("self_attn.o_proj.");
      work.at_input |= part.starts_with("input_layernorm.");
      work.in_qkv |= attention && !output;
      work.in_output |= output || part.starts_with("post_attention_layernorm.");
      work.in_up |= part.starts_with("mlp.") && part.find("down_proj") == part.npos;
      work.in_experts |= experts;
    }
  }
  return layers;
}

// Returns the products with weights through which the gradient passes in the lowest layer that it
// reaches, where nothing is trained below.
double LowestLayerWork(const LayerWork& work, const TrainedWork& trained) {
  double products = 0;
  if (trained.in_up || trained.in_output || trained.in_qkv) products += work.down;
  if (trained.in_output || trained.in_qkv) products += work.up + work.router;
  if (trained.in_qkv) products += work.output + 2 * work.scores;
  return products;
}

// Returns the backward multiply-adds of a partly trained model with `head` of them forward in its
// head, without merging.
double PartialBackward(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                       const RouterRates& rates, double mean_keys, double head) {
  const BackwardReach reach = BackwardReachOf(config, finetuning);
  const std::vector<TrainedWork> trained = TrainedWorkOf(config, finetuning, rates);
  const std::vector<double> mixed = MixedPasses(config, reach.first_layer);
  bool below_head = false, embedding = false;
  for (const ParameterSpec& spec : FinetunedLayout(config, finetuning)) {
    if (!spec.trained) continue;
    below_head |= spec.group != "head";
    embedding |= spec.group == "embedding";
  }
  double backward = (reach.trains_head ? head : 0) + (below_head ? head : 0);
  for (int layer = reach.first_layer; layer < config.num_layers(); ++layer) {
    const LayerWork work = WorkOf(config, rates, IsMoeLayer(config, layer), mean_keys);
    const TrainedWork& own = trained[static_cast<size_t>(layer)];
    const bool lowest =
        layer == reach.first_layer && !embedding && !own.at_input && MixesNothing(config);
    const double through = lowest ? LowestLayerWork(work, own) : work.total() + work.scores;
    backward += (1 + mixed[layer]) * (through + own.products + 2 * own.adapters);
  }
  if (reach.first_layer < config.num_layers()) backward += 2 * MixingGateSize(config);
  return backward;
}

}  // namespace

ModelFlops FlopsPerToken(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning,
                         const DataMeans& data) {
  const RouterRates rates = RatesOf(resolved, data);
  const double keys = data.visible_keys.value_or(0.5 * resolved.sequence_length());
  const std::vector<double> mixed = MixedPasses(resolved);
  const std::vector<TrainedWork> trained = TrainedWorkOf(resolved, finetuning, rates);
  const bool partial = IsPartial(finetuning);
  const BackwardReach reach = BackwardReachOf(resolved, finetuning);
  // The head counts whether tied or not; an embedding lookup is not a product.
  const double head = data.target_share * static_cast<double>(resolved.d_model()) *
                      static_cast<double>(HeadWidth(resolved));
  double forward = head + MixingGateSize(resolved);
  double merged = 0, spread = 0;  // averages of experts, and of their size in backward
  for (int layer = 0; layer < resolved.num_layers(); ++layer) {
    const bool experts = IsMoeLayer(resolved, layer);
    const double passes = 1 + mixed[layer];
    forward += passes * (WorkOf(resolved, rates, experts, keys).total() +
                         trained[static_cast<size_t>(layer)].adapters);
    if (!experts) continue;
    merged += passes;
    // Averaging again, the gradients of the routing weights, and those of the experts.
    const bool trains_experts = !partial || trained[static_cast<size_t>(layer)].in_experts;
    if (layer >= reach.first_layer) spread += (trains_experts ? 3 : 2) * passes;
  }
  const double sequences = resolved.consistency_loss() > 0 ? 2 : 1;
  const double merging = 2 * rates.merges * resolved.routing().num_experts() *
                         NumFfnMatrices(resolved) * static_cast<double>(resolved.d_model()) *
                         static_cast<double>(ExpertWidth(resolved)) * sequences;
  ModelFlops flops;
  flops.forward = 2 * sequences * forward;
  flops.backward = partial
                       ? 2 * sequences * PartialBackward(resolved, finetuning, rates, keys, head)
                       : 2 * flops.forward;
  flops.merge_forward = merged * merging;
  flops.merge_backward = spread * merging;
  return flops;
}

}  // namespace braid
