#include "model/config/token_routing_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr int kMaxProjection = 256;
// Scores multiply cosines by at most 100 (CosineScores), so lower temperatures have no effect.
constexpr double kMinTemperature = 0.01;

absl::Status CheckExpertWidth(const v1::ModelConfig& config) {
  const v1::TokenRouting& token = config.routing().token();
  const int experts = config.routing().num_experts();
  if (!token.has_expert_d_ff()) {
    return Invalid("routing.num_experts", "got ", experts, ", expected a divisor of d_ff ",
                   config.d_ff(), "; ", NearestDivisors(config.d_ff(), experts),
                   "; or set routing.token.expert_d_ff");
  }
  RETURN_IF_ERROR(CheckRange("routing.token.expert_d_ff", token.expert_d_ff(), 1, kMaxExtent));
  // Experts as wide as the FFN usually begin as copies of it.
  if (token.expert_d_ff() < config.d_ff()) return absl::OkStatus();
  if (token.gate() == v1::TokenRouting::KEY_MEAN) {
    return Invalid("routing.token.gate",
                   "KEY_MEAN needs experts that are slices of the FFN; got "
                   "expert_d_ff ",
                   token.expert_d_ff(), " of d_ff ", config.d_ff(),
                   ", where copies have equal means; use LINEAR or leave expert_d_ff unset");
  }
  if (token.combine_weights() == v1::TokenRouting::ONES) {
    return Invalid("routing.token.combine_weights",
                   "ONES needs experts that are slices of the "
                   "FFN; got expert_d_ff ",
                   token.expert_d_ff(), " of d_ff ", config.d_ff(),
                   ", which adds whole FFNs; use EQUAL or SOFTMAX_OF_CHOSEN");
  }
  return absl::OkStatus();
}

// Returns whether scores say more than which experts are chosen.
bool HasScores(const v1::TokenRouting& token) {
  return token.gate() != v1::TokenRouting::RANDOM && token.gate() != v1::TokenRouting::HASH;
}

absl::Status CheckGateLoss(const v1::TokenRouting& token) {
  const std::string gate = v1::TokenRouting::Gate_Name(token.gate());
  if (!(std::isfinite(token.balance_loss()) && token.balance_loss() >= 0)) {
    return Invalid("routing.token.balance_loss", "got ", token.balance_loss(),
                   ", expected 0 or a positive number");
  }
  if (token.balance_loss() > 0 && token.gate() == v1::TokenRouting::RELU) {
    return Invalid("routing.token.balance_loss", "got ", token.balance_loss(),
                   ", but the gate RELU has a penalty of its own; use the gate LINEAR or set it "
                   "to 0");
  }
  const bool trained =
      token.gate() == v1::TokenRouting::LINEAR || token.gate() == v1::TokenRouting::COSINE;
  if (token.balance_loss() > 0 && !trained) {
    return Invalid("routing.token.balance_loss", "got ", token.balance_loss(), ", but the gate ",
                   gate, " is not trained; use the gate LINEAR or set it to 0");
  }
  if (!(std::isfinite(token.gate_noise_std()) && token.gate_noise_std() >= 0)) {
    return Invalid("routing.token.gate_noise_std", "got ", token.gate_noise_std(),
                   ", expected 0 or a positive number");
  }
  if (!HasScores(token) && token.gate_noise_std() > 0) {
    return Invalid("routing.token.gate_noise_std", "got ", token.gate_noise_std(),
                   ", but the gate ", gate, " has no scores; set it to 0");
  }
  return absl::OkStatus();
}

absl::Status CheckCombineWeights(const v1::TokenRouting& token) {
  const std::string gate = v1::TokenRouting::Gate_Name(token.gate());
  const std::string weights = v1::TokenRouting::CombineWeights_Name(token.combine_weights());
  const bool scores = token.combine_weights() == v1::TokenRouting::SCORES;
  if (token.gate() == v1::TokenRouting::RELU) {
    if (token.selection() != v1::TokenRouting::TOP) {
      return Invalid("routing.token.selection", "got ",
                     v1::TokenRouting::Selection_Name(token.selection()),
                     ", but the gate RELU chooses every positive score; leave it unset");
    }
    if (scores) return absl::OkStatus();
    return Invalid("routing.token.combine_weights", "got ", weights,
                   ", but the outputs of the gate RELU are its weights; use SCORES");
  }
  if (scores) {
    return Invalid("routing.token.combine_weights", "got SCORES, but the gate is ", gate,
                   ", expected RELU; use SOFTMAX_OF_CHOSEN");
  }
  if (HasScores(token) || token.combine_weights() == v1::TokenRouting::EQUAL ||
      token.combine_weights() == v1::TokenRouting::ONES) {
    return absl::OkStatus();
  }
  return Invalid("routing.token.combine_weights", "got ", weights, ", but the gate ", gate,
                 " has no scores; use EQUAL or ONES");
}

// Checks a setting of one gate: unset with others, positive otherwise.
absl::Status CheckOfGate(const char* field, bool set, double value, double above,
                         v1::TokenRouting::Gate owner, v1::TokenRouting::Gate gate) {
  const std::string name = absl::StrCat("routing.token.", field);
  if (gate != owner) {
    if (!set) return absl::OkStatus();
    return Invalid(name, "got ", value, ", but the gate is ", v1::TokenRouting::Gate_Name(gate),
                   ", expected ", v1::TokenRouting::Gate_Name(owner), "; leave it unset");
  }
  if (std::isfinite(value) && value > above) return absl::OkStatus();
  return Invalid(name, "got ", value, ", expected more than ", above);
}

absl::Status CheckGateSettings(const v1::TokenRouting& t) {
  using Token = v1::TokenRouting;
  RETURN_IF_ERROR(CheckOfGate("projection_width", t.has_projection_width(), t.projection_width(), 0,
                              Token::COSINE, t.gate()));
  RETURN_IF_ERROR(
      CheckOfGate("temperature", t.has_temperature(), t.temperature(), 0, Token::COSINE, t.gate()));
  if (t.gate() == Token::COSINE && t.temperature() < kMinTemperature) {
    return Invalid("routing.token.temperature", "got ", t.temperature(), ", expected at least ",
                   kMinTemperature, ", since cosines are multiplied by at most ",
                   1 / kMinTemperature);
  }
  RETURN_IF_ERROR(
      CheckOfGate("l1_start", t.has_l1_start(), t.l1_start(), 0, Token::RELU, t.gate()));
  return CheckOfGate("l1_factor", t.has_l1_factor(), t.l1_factor(), 1, Token::RELU, t.gate());
}

absl::Status CheckDocumentPool(const v1::ModelConfig& config) {
  const v1::RoutingConfig& routing = config.routing();
  const v1::TokenRouting& token = routing.token();
  if (!token.has_document_pool()) return absl::OkStatus();
  const int pool = token.document_pool();
  if (pool < token.active_experts() || pool > routing.num_experts()) {
    return Invalid("routing.token.document_pool", "got ", pool, ", expected active_experts ",
                   token.active_experts(), " to num_experts ", routing.num_experts());
  }
  if (!HasScores(token)) {
    return Invalid("routing.token.document_pool", "got ", pool, ", but the gate ",
                   v1::TokenRouting::Gate_Name(token.gate()), " has no scores; leave it unset");
  }
  if (token.selection() != v1::TokenRouting::TOP) {
    return Invalid("routing.token.document_pool", "got ", pool, " with selection ",
                   v1::TokenRouting::Selection_Name(token.selection()),
                   ", expected TOP; leave one of them unset");
  }
  if (config.has_layer_mixing()) {
    return Invalid("routing.token.document_pool", "got ", pool,
                   " with layer_mixing; leave one of them unset");
  }
  if (routing.segment_length() < config.sequence_length()) return absl::OkStatus();
  return Invalid("routing.segment_length", "got ", routing.segment_length(),
                 ", expected less than sequence_length ", config.sequence_length(),
                 ": the first segment_length tokens of a document choose its document_pool");
}

absl::Status CheckCenteredInput(const v1::ModelConfig& config) {
  const v1::TokenRouting& token = config.routing().token();
  if (!token.centered_input()) return absl::OkStatus();
  if (!HasScores(token)) {
    return Invalid("routing.token.centered_input", "got true, but the gate ",
                   v1::TokenRouting::Gate_Name(token.gate()),
                   " does not see the input; leave it unset");
  }
  if (!config.has_layer_mixing()) return absl::OkStatus();
  return Invalid("routing.token.centered_input",
                 "got true with layer_mixing, where a layer has several inputs; leave one of them "
                 "unset");
}

void FillGateDefaults(int d_model, v1::TokenRouting* token) {
  if (token->gate() == v1::TokenRouting::COSINE) {
    if (!token->has_projection_width()) {
      token->set_projection_width(std::clamp(d_model / 2, 1, kMaxProjection));
    }
    if (!token->has_temperature()) token->set_temperature(0.3);
  }
  if (token->gate() == v1::TokenRouting::RELU) {
    if (!token->has_l1_start()) token->set_l1_start(1e-8);
    if (!token->has_l1_factor()) token->set_l1_factor(1.2);
  }
}

}  // namespace

void FillTokenDefaults(const v1::ModelConfig& config, v1::RoutingConfig* routing) {
  if (routing->router_input() == v1::ROUTER_INPUT_UNSPECIFIED) {
    routing->set_router_input(v1::PLAIN_MEAN);
  }
  v1::TokenRouting* token = routing->mutable_token();
  if (token->combine_weights() == v1::TokenRouting::COMBINE_WEIGHTS_UNSPECIFIED) {
    if (!HasScores(*token)) token->set_combine_weights(v1::TokenRouting::EQUAL);
    if (token->gate() == v1::TokenRouting::RELU) {
      token->set_combine_weights(v1::TokenRouting::SCORES);
    }
  }
  FillStatedDefaults(token);
  FillGateDefaults(config.d_model(), token);
  const int d_ff = config.d_ff();
  // Otherwise CheckTokenRouting names the divisors.
  if (!token->has_expert_d_ff() && routing->num_experts() > 0 &&
      d_ff % routing->num_experts() == 0) {
    token->set_expert_d_ff(d_ff / routing->num_experts());
  }
}

absl::Status CheckTokenRouting(const v1::ModelConfig& config) {
  const v1::RoutingConfig& routing = config.routing();
  if (routing.router() != v1::TOKEN_CHOICE) {
    if (!routing.has_token()) return absl::OkStatus();
    return Invalid("routing.token", "the router is ", v1::Router_Name(routing.router()),
                   ", expected TOKEN_CHOICE; set routing.router=TOKEN_CHOICE or leave "
                   "routing.token unset");
  }
  const v1::TokenRouting& token = routing.token();
  RETURN_IF_ERROR(CheckRange("routing.token.gate", token.gate(), 1, v1::TokenRouting::Gate_MAX));
  RETURN_IF_ERROR(CheckRange("routing.token.combine_weights", token.combine_weights(), 1,
                             v1::TokenRouting::CombineWeights_MAX));
  RETURN_IF_ERROR(
      CheckRange("routing.token.selection", token.selection(), 1, v1::TokenRouting::Selection_MAX));
  RETURN_IF_ERROR(
      CheckRange("routing.token.active_experts", token.active_experts(), 1, routing.num_experts()));
  RETURN_IF_ERROR(CheckExpertWidth(config));
  RETURN_IF_ERROR(CheckCombineWeights(token));
  RETURN_IF_ERROR(CheckGateSettings(token));
  RETURN_IF_ERROR(CheckDocumentPool(config));
  RETURN_IF_ERROR(CheckCenteredInput(config));
  return CheckGateLoss(token);
}

}  // namespace braid
