#include "model/config/expert_split_config.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

absl::Status CheckNumExperts(int experts, int units) {
  if (experts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_experts: got ", experts, ", expected at least 1"));
  }
  if (units % experts == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_experts: got ", experts, ", expected a divisor of the ", units,
                   " hidden units of an FFN; ", NearestDivisors(units, experts)));
}

v1::TokenRouting::Gate GateOf(const v1::ExpertSplit& split) {
  if (split.gate() != v1::TokenRouting::GATE_UNSPECIFIED) return split.gate();
  return split.method() == v1::ExpertSplit::COPIES ? v1::TokenRouting::LINEAR
                                                   : v1::TokenRouting::KEY_MEAN;
}

absl::Status CheckGate(v1::TokenRouting::Gate gate) {
  if (CanChooseAmongSplit(gate)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gate: got ", v1::TokenRouting::Gate_Name(gate),
                   ", whose scores are the weights of the experts, so that those of a split do not "
                   "add up to the dense FFN; expected another gate, such as KEY_MEAN or LINEAR"));
}

// Copies add up to the dense function with weights that sum to 1, as those do that gates have by
// default, and slices with weights of 1.
void SetChoice(const v1::ModelConfig& dense, const v1::ExpertSplit& split,
               v1::TokenRouting* token) {
  const bool copies = split.method() == v1::ExpertSplit::COPIES;
  token->set_gate(GateOf(split));
  if (copies) {
    token->set_expert_d_ff(dense.d_ff());
  } else {
    token->set_combine_weights(v1::TokenRouting::ONES);
  }
  const int usual = copies ? std::min(2, split.num_experts()) : (split.num_experts() + 1) / 2;
  token->set_active_experts(split.has_active_experts() ? split.active_experts() : usual);
}

// Returns whether the gate has parameters that are trained.
bool IsTrainedGate(v1::TokenRouting::Gate gate) {
  return gate == v1::TokenRouting::LINEAR || gate == v1::TokenRouting::COSINE ||
         gate == v1::TokenRouting::RELU;
}

}  // namespace

bool CanChooseAmongSplit(v1::TokenRouting::Gate gate) { return gate != v1::TokenRouting::RELU; }

bool HasTrainedGate(const v1::ExpertSplit& split) { return IsTrainedGate(GateOf(split)); }

absl::StatusOr<std::set<int>> LayersToSplit(const v1::ExpertSplit& split, int num_layers) {
  std::set<int> layers;
  for (const int asked : split.layers()) {
    const int layer = asked < 0 ? num_layers + asked : asked;
    if (layer < 0 || layer >= num_layers) {
      return absl::InvalidArgumentError(absl::StrCat("layers: got ", asked, ", expected ",
                                                     -num_layers, " to ", num_layers - 1,
                                                     ": the model has ", num_layers, " layers"));
    }
    if (!layers.insert(layer).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("layers: layer ", layer, " is listed twice; list each layer once"));
    }
  }
  for (int layer = 0; split.layers().empty() && layer < num_layers; ++layer) layers.insert(layer);
  return layers;
}

absl::StatusOr<v1::ModelConfig> ExpertSplitConfig(const v1::ModelConfig& dense,
                                                  const v1::ExpertSplit& split) {
  if (UsesExperts(dense)) {
    return absl::InvalidArgumentError(
        "the model has experts, expected a dense one; 'braid convert --dense' joins experts of "
        "the router TOKEN_CHOICE");
  }
  ASSIGN_OR_RETURN(const std::set<int> layers, LayersToSplit(split, dense.num_layers()));
  RETURN_IF_ERROR(CheckGate(split.gate()));
  if (split.method() != v1::ExpertSplit::COPIES) {
    RETURN_IF_ERROR(CheckNumExperts(split.num_experts(), dense.d_ff()));
  }
  v1::ModelConfig config = dense;
  config.clear_preset();
  v1::RoutingConfig* routing = config.mutable_routing();
  routing->Clear();
  // Segments divide the figures of either model, so that both can be compared.
  routing->set_segment_length(dense.routing().segment_length());
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(split.num_experts());
  for (const int layer : layers) routing->add_moe_layers(layer);
  SetChoice(dense, split, routing->mutable_token());
  return ResolveModelConfig(config);
}

absl::Status CheckJoinable(const v1::ModelConfig& resolved) {
  const v1::RoutingConfig& routing = resolved.routing();
  const auto refuse = [](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat("the experts cannot become one FFN: ", problem));
  };
  if (!UsesExperts(resolved)) return refuse("the model is dense already");
  if (routing.router() != v1::TOKEN_CHOICE) {
    return refuse(absl::StrCat("the router is ", v1::Router_Name(routing.router()),
                               ", expected TOKEN_CHOICE; braid export --bake merges the experts of "
                               "one that averages them"));
  }
  if (ExpertWidth(resolved) * routing.num_experts() != resolved.d_ff()) {
    return refuse(absl::StrCat(routing.num_experts(), " experts of ", ExpertWidth(resolved),
                               " units are not slices of ", resolved.d_ff(), " units"));
  }
  if (routing.token().combine_weights() == v1::TokenRouting::ONES) return absl::OkStatus();
  return refuse(absl::StrCat(
      "combine weights are ",
      v1::TokenRouting::CombineWeights_Name(routing.token().combine_weights()),
      ", expected ONES; with others the sum is another function, with all experts too"));
}

absl::Status CheckRecomposable(const v1::ModelConfig& resolved) {
  const auto refuse = [](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat("finetuning.recompose: ", problem));
  };
  if (const absl::Status joinable = CheckJoinable(resolved); !joinable.ok()) {
    return refuse(absl::StrCat(std::string(joinable.message()),
                               "; split by keys, contiguous or random, or leave recompose unset "
                               "(--no-recompose)"));
  }
  const v1::TokenRouting::Gate gate = resolved.routing().token().gate();
  if (!IsTrainedGate(gate)) return absl::OkStatus();
  return refuse(absl::StrCat("the gate ", v1::TokenRouting::Gate_Name(gate),
                             " is trained, and a dense model has no place for it; use KEY_MEAN or "
                             "FROZEN, or leave recompose unset (--no-recompose)"));
}

}  // namespace braid
