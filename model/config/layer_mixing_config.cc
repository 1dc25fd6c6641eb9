#include "model/config/layer_mixing_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "model/config/model_config.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

using Mixing = v1::LayerMixing;

constexpr int kMaxMixingProjection = 256;

// Returns `layer` counted from 0.
absl::StatusOr<int> CountedLayer(const char* field, int layer, int num_layers) {
  const int counted = layer < 0 ? num_layers + layer : layer;
  if (counted >= 0 && counted < num_layers) return counted;
  return Invalid(field, "got ", layer, ", expected ", -num_layers, " to ", num_layers - 1,
                 ": the model has ", num_layers, " layers");
}

// Returns the layers of `mixing` counted from 0, in the order in which they are listed.
absl::StatusOr<std::vector<int>> ListedLayers(const Mixing& mixing, int num_layers) {
  std::vector<int> layers;
  for (const int asked : mixing.layers()) {
    ASSIGN_OR_RETURN(const int layer, CountedLayer("layer_mixing.layers", asked, num_layers));
    if (std::ranges::find(layers, layer) != layers.end()) {
      return Invalid("layer_mixing.layers", "got layer ", layer, " twice; list each layer once");
    }
    layers.push_back(layer);
  }
  if (layers.empty()) {
    layers.resize(num_layers);
    std::iota(layers.begin(), layers.end(), 0);
  }
  return layers;
}

absl::Status CheckMixingChoice(const v1::ModelConfig& config) {
  const Mixing& mixing = config.layer_mixing();
  const auto layers = static_cast<int>(MixingLayers(config).size());
  if (layers < 2) {
    return Invalid("layer_mixing.layers", "got ", layers,
                   " layer, expected at least 2, or none for all; a layer alone has no other layer "
                   "to mix with");
  }
  const bool listed = mixing.gate() == Mixing::FIXED || mixing.gate() == Mixing::OWN_LAYER;
  if (listed && mixing.num_chosen() != 1) {
    return Invalid("layer_mixing.num_chosen", "got ", mixing.num_chosen(), ", expected 1 with the ",
                   "gate ", Mixing::Gate_Name(mixing.gate()));
  }
  if (mixing.num_chosen() >= 1 && mixing.num_chosen() <= layers) return absl::OkStatus();
  return Invalid("layer_mixing.num_chosen", "got ", mixing.num_chosen(), ", expected 1 to ", layers,
                 ", the number of layers that can be chosen");
}

// Checks the settings that need the scores of a gate.
absl::Status CheckScoredSettings(const v1::ModelConfig& config) {
  const Mixing& mixing = config.layer_mixing();
  const std::string gate = Mixing::Gate_Name(mixing.gate());
  const double balance = mixing.balance_loss();
  if (!(std::isfinite(balance) && balance >= 0)) {
    return Invalid("layer_mixing.balance_loss", "got ", balance,
                   ", expected 0 or a positive number");
  }
  if (balance > 0 && mixing.gate() != Mixing::LEARNED) {
    return Invalid("layer_mixing.balance_loss", "got ", balance, ", but the gate ", gate,
                   " is not trained; use the gate LEARNED or leave it unset");
  }
  if (mixing.learn_alpha() && mixing.gate() == Mixing::OWN_LAYER) {
    return Invalid("layer_mixing.learn_alpha",
                   "got true with the gate OWN_LAYER, on which alpha has no effect; use another "
                   "gate or leave it unset");
  }
  if (mixing.has_projection_width()) {
    if (mixing.score() != Mixing::COSINE) {
      return Invalid("layer_mixing.projection_width", "got ", mixing.projection_width(),
                     ", but the score is ", Mixing::Score_Name(mixing.score()),
                     ", expected COSINE; leave it unset");
    }
    RETURN_IF_ERROR(
        CheckRange("layer_mixing.projection_width", mixing.projection_width(), 1, kMaxExtent));
  }
  if (HasMixingGate(config)) return absl::OkStatus();
  if (mixing.weight() == Mixing::PROBABILITY) {
    return Invalid("layer_mixing.weight", "got PROBABILITY, but the gate ", gate,
                   " has no probabilities; use ONE, or the gate LEARNED or FROZEN");
  }
  if (mixing.score() == Mixing::COSINE) {
    return Invalid("layer_mixing.score", "got COSINE, but the gate ", gate,
                   " has no scores; use the gate LEARNED or FROZEN or leave it unset");
  }
  if (!mixing.own_gates()) return absl::OkStatus();
  return Invalid("layer_mixing.own_gates", "got true, but the gate ", gate,
                 " has no parameters; use the gate LEARNED or FROZEN or leave it unset");
}

absl::Status CheckMixingEnums(const Mixing& mixing) {
  RETURN_IF_ERROR(CheckRange("layer_mixing.gate", mixing.gate(), 1, Mixing::Gate_MAX));
  RETURN_IF_ERROR(CheckRange("layer_mixing.score", mixing.score(), 1, Mixing::Score_MAX));
  RETURN_IF_ERROR(
      CheckRange("layer_mixing.probability", mixing.probability(), 1, Mixing::Probability_MAX));
  RETURN_IF_ERROR(CheckRange("layer_mixing.weight", mixing.weight(), 1, Mixing::Weight_MAX));
  return CheckRange("layer_mixing.decision", mixing.decision(), 1, Mixing::Decision_MAX);
}

bool ChoosesByDecision(const Mixing& mixing) {
  return mixing.gate() != Mixing::OWN_LAYER && mixing.gate() != Mixing::FIXED;
}

}  // namespace

absl::Status FillMixingDefaults(v1::ModelConfig* config) {
  if (!config->has_layer_mixing()) return absl::OkStatus();
  Mixing* const mixing = config->mutable_layer_mixing();
  FillStatedDefaults(mixing);
  if (mixing->score() == Mixing::COSINE && !mixing->has_projection_width()) {
    mixing->set_projection_width(std::clamp(config->d_model() / 2, 1, kMaxMixingProjection));
  }
  ASSIGN_OR_RETURN(std::vector<int> layers, ListedLayers(*mixing, config->num_layers()));
  if (mixing->gate() != Mixing::FIXED && mixing->fixed_size() > 0) {
    return Invalid("layer_mixing.fixed", "got ", mixing->fixed_size(), " layers, but the gate is ",
                   Mixing::Gate_Name(mixing->gate()), ", expected FIXED; leave it unset");
  }
  if (mixing->gate() == Mixing::FIXED && mixing->fixed_size() != std::ssize(layers)) {
    return Invalid("layer_mixing.fixed", "got ", mixing->fixed_size(), " layers, expected ",
                   layers.size(), ", one for each layer that mixes");
  }
  std::map<int, int> partners;
  for (int i = 0; i < mixing->fixed_size(); ++i) {
    ASSIGN_OR_RETURN(partners[layers[i]],
                     CountedLayer("layer_mixing.fixed", mixing->fixed(i), config->num_layers()));
  }
  mixing->clear_fixed();
  for (const auto& [layer, partner] : partners) mixing->add_fixed(partner);
  std::ranges::sort(layers);
  mixing->mutable_layers()->Assign(layers.begin(), layers.end());
  if (mixing->layers_size() == config->num_layers()) mixing->clear_layers();
  return absl::OkStatus();
}

absl::Status CheckLayerMixing(const v1::ModelConfig& config) {
  if (!config.has_layer_mixing()) return absl::OkStatus();
  const Mixing& mixing = config.layer_mixing();
  RETURN_IF_ERROR(CheckMixingEnums(mixing));
  if (!(mixing.alpha() >= 0 && mixing.alpha() <= 1)) {
    return Invalid("layer_mixing.alpha", "got ", mixing.alpha(), ", expected 0 to 1");
  }
  RETURN_IF_ERROR(CheckMixingChoice(config));
  RETURN_IF_ERROR(CheckScoredSettings(config));
  const bool by_token = ChoosesByDecision(mixing) && mixing.decision() == Mixing::TOKEN;
  if (!by_token || !UsesExperts(config) || !RoutesOnOtherTokens(config.routing())) {
    return absl::OkStatus();
  }
  return Invalid("layer_mixing.decision", "got TOKEN, but the router ",
                 v1::Router_Name(config.routing().router()),
                 " decides for several tokens; use SEQUENCE, or the router DENSE or TOKEN_CHOICE");
}

std::vector<int> MixingLayers(const v1::ModelConfig& resolved) {
  if (!resolved.has_layer_mixing()) return {};
  const auto& listed = resolved.layer_mixing().layers();
  if (!listed.empty()) return {listed.begin(), listed.end()};
  std::vector<int> all(resolved.num_layers());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool HasMixingGate(const v1::ModelConfig& resolved) {
  const Mixing::Gate gate = resolved.layer_mixing().gate();
  return gate == Mixing::LEARNED || gate == Mixing::FROZEN;
}

bool MixesNothing(const v1::ModelConfig& resolved) {
  const Mixing& mixing = resolved.layer_mixing();
  return !resolved.has_layer_mixing() || mixing.gate() == Mixing::OWN_LAYER ||
         (mixing.alpha() == 1 && !mixing.learn_alpha());
}

bool MixesByPrompt(const v1::ModelConfig& resolved) {
  return !MixesNothing(resolved) && HasMixingGate(resolved) &&
         resolved.layer_mixing().decision() == Mixing::SEQUENCE;
}

bool MixesByPosition(const v1::ModelConfig& resolved) {
  if (MixesNothing(resolved) || !HasMixingGate(resolved)) return false;
  const Mixing::Decision decision = resolved.layer_mixing().decision();
  return decision == Mixing::TOKEN ||
         (decision == Mixing::SEQUENCE && resolved.attention_mask() == v1::DOCUMENT);
}

bool MixesByBatch(const v1::ModelConfig& resolved) {
  const Mixing::Decision decision = resolved.layer_mixing().decision();
  return !MixesNothing(resolved) && ChoosesByDecision(resolved.layer_mixing()) &&
         (decision == Mixing::BATCH_MODE || decision == Mixing::BATCH_MEAN);
}

absl::Status CheckMixingInference(const v1::ModelConfig& resolved) {
  if (!MixesByBatch(resolved)) return absl::OkStatus();
  return Invalid("layer_mixing.decision", "got ",
                 Mixing::Decision_Name(resolved.layer_mixing().decision()),
                 ", which depends on the other sequences of a training batch, expected SEQUENCE or "
                 "TOKEN where a model is evaluated or generates text");
}

absl::Status CheckPlainLayers(const v1::ModelConfig& resolved, const char* field, const char* use) {
  if (!resolved.has_layer_mixing()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": got a model whose layers mix (",
                   "model.layer_mixing), expected plain layers: ", use));
}

std::vector<double> MixedPasses(const v1::ModelConfig& resolved, int first) {
  std::vector<double> passes(resolved.num_layers(), 0.0);
  if (MixesNothing(resolved)) return passes;
  const Mixing& mixing = resolved.layer_mixing();
  const std::vector<int> layers = MixingLayers(resolved);
  if (mixing.gate() == Mixing::FIXED) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const int other = mixing.fixed(static_cast<int>(i));
      if (layers[i] >= first && layers[i] != other) passes[other] += 1;
    }
    return passes;
  }
  const auto others = static_cast<double>(layers.size() - 1);
  const double most = mixing.decision() == Mixing::TOKEN ? others : mixing.num_chosen();
  const double share = std::min(most, others) / others;
  const auto mixed = std::ranges::count_if(layers, [&](int layer) { return layer >= first; });
  for (const int other : layers) {
    passes[other] = share * static_cast<double>(mixed - (other >= first ? 1 : 0));
  }
  return passes;
}

}  // namespace braid
