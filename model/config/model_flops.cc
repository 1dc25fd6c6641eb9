#include "model/config/model_flops.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

// Elements of the matrices by which positions are multiplied.
struct MatrixSizes {
  double shared = 0;   // attention, dense FFNs, gates of layers, head
  double experts = 0;  // sum over experts
  double routers = 0;
};

// How many times a position passes through layers, with and without experts. Integers unless a
// random or trained choice of layers is expected to take a part of them.
struct LayerPasses {
  double all = 0, with_experts = 0;
};

LayerPasses PassesOf(const v1::ModelConfig& config) {
  LayerPasses passes;
  const std::vector<double> mixed = MixedPasses(config);
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    passes.all += 1 + mixed[layer];
    if (IsMoeLayer(config, layer)) passes.with_experts += 1 + mixed[layer];
  }
  return passes;
}

// Returns the size of the gates that choose layers, once for each layer that mixes.
double MixingGateSize(const v1::ModelConfig& config) {
  if (MixesNothing(config) || !HasMixingGate(config)) return 0;
  const double d = config.d_model();
  const auto layers = static_cast<double>(MixingLayers(config).size());
  if (config.layer_mixing().score() != v1::LayerMixing::COSINE) return layers * layers * d;
  return layers * config.layer_mixing().projection_width() * (d + layers);
}

MatrixSizes SumMatrices(const v1::ModelConfig& config, const LayerPasses& passes) {
  const auto matrices = static_cast<double>(NumFfnMatrices(config));
  const double d = config.d_model(), ffn = matrices * d * config.d_ff();
  const double layers = passes.all, moe_layers = passes.with_experts;
  const double experts = moe_layers * config.routing().num_experts();
  const AttentionHeads heads = HeadsOf(config);
  const auto attention = d * static_cast<double>(heads.qkv_width() + heads.query_width());
  const double projection =
      ProjectsRouterInput(config.routing()) ? d * static_cast<double>(RouterWidth(config)) : 0;
  // The head counts whether tied or not; an embedding lookup is not a product.
  return {.shared = d * static_cast<double>(HeadWidth(config)) + layers * attention +
                    (layers - moe_layers) * ffn + MixingGateSize(config),
          .experts = experts * matrices * d * static_cast<double>(ExpertWidth(config)),
          .routers = experts * static_cast<double>(RouterWidth(config)) + moe_layers * projection};
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

RouterRates RatesOf(const v1::ModelConfig& config) {
  const int64_t length = config.sequence_length(), experts = config.routing().num_experts();
  const int64_t segments = length / config.routing().segment_length();
  const auto per_position = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(length);
  };
  switch (config.routing().router()) {
    case v1::CAUSAL_SEGMENT:
      return {1.0 / static_cast<double>(experts), per_position(segments), 0};
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
      return {static_cast<double>(token.active_experts()) / static_cast<double>(experts), 0,
              scored ? 1.0 : 0.0};
    }
    default:
      return {};
  }
}

}  // namespace

ModelFlops FlopsPerToken(const v1::ModelConfig& resolved) {
  const LayerPasses passes = PassesOf(resolved);
  const MatrixSizes sizes = SumMatrices(resolved, passes);
  const RouterRates rates = RatesOf(resolved);
  // Scores and their product with the values: half of L keys on average.
  const double attention = passes.all * static_cast<double>(HeadsOf(resolved).query_width()) *
                           resolved.sequence_length();
  ModelFlops flops;
  flops.forward =
      2 * (sizes.shared + rates.passes * sizes.experts + rates.routed * sizes.routers + attention);
  flops.backward = 2 * flops.forward;
  flops.merge_forward = 2 * rates.merges * sizes.experts;
  flops.merge_backward = 3 * flops.merge_forward;
  return flops;
}

}  // namespace braid
