#include "model/config/token_routing_config.h"

#include <cmath>
#include <string>

#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

// Returns the divisor of `number` nearest to `wanted`.
int NearestDivisor(int number, int wanted) {
  for (int distance = 0; distance < number; ++distance) {
    for (const int divisor : {wanted - distance, wanted + distance}) {
      if (divisor > 0 && number % divisor == 0) return divisor;
    }
  }
  return 1;
}

absl::Status CheckExpertWidth(const v1::ModelConfig& config) {
  const v1::TokenRouting& token = config.routing().token();
  const int experts = config.routing().num_experts();
  if (!token.has_expert_d_ff()) {
    return Invalid("routing.num_experts", "got ", experts, ", expected a divisor of d_ff ",
                   config.d_ff(), ", such as ", NearestDivisor(config.d_ff(), experts),
                   ", or set routing.token.expert_d_ff");
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

absl::Status CheckGateLoss(const v1::TokenRouting& token) {
  const std::string gate = v1::TokenRouting::Gate_Name(token.gate());
  if (!(std::isfinite(token.balance_loss()) && token.balance_loss() >= 0)) {
    return Invalid("routing.token.balance_loss", "got ", token.balance_loss(),
                   ", expected 0 or a positive number");
  }
  if (token.balance_loss() > 0 && token.gate() != v1::TokenRouting::LINEAR) {
    return Invalid("routing.token.balance_loss", "got ", token.balance_loss(), ", but the gate ",
                   gate, " is not trained; use the gate LINEAR or set it to 0");
  }
  if (!(std::isfinite(token.gate_noise_std()) && token.gate_noise_std() >= 0)) {
    return Invalid("routing.token.gate_noise_std", "got ", token.gate_noise_std(),
                   ", expected 0 or a positive number");
  }
  if (token.gate() != v1::TokenRouting::RANDOM) return absl::OkStatus();
  if (token.gate_noise_std() > 0) {
    return Invalid("routing.token.gate_noise_std", "got ", token.gate_noise_std(),
                   ", but the gate RANDOM has no scores; set it to 0");
  }
  if (token.combine_weights() == v1::TokenRouting::EQUAL ||
      token.combine_weights() == v1::TokenRouting::ONES) {
    return absl::OkStatus();
  }
  return Invalid("routing.token.combine_weights", "got ",
                 v1::TokenRouting::CombineWeights_Name(token.combine_weights()),
                 ", but the gate RANDOM has no scores; use EQUAL or ONES");
}

}  // namespace

void FillTokenDefaults(int d_ff, v1::RoutingConfig* routing) {
  if (routing->router_input() == v1::ROUTER_INPUT_UNSPECIFIED) {
    routing->set_router_input(v1::PLAIN_MEAN);
  }
  v1::TokenRouting* token = routing->mutable_token();
  if (token->gate() == v1::TokenRouting::RANDOM &&
      token->combine_weights() == v1::TokenRouting::COMBINE_WEIGHTS_UNSPECIFIED) {
    token->set_combine_weights(v1::TokenRouting::EQUAL);
  }
  FillStatedDefaults(token);
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
  return CheckGateLoss(token);
}

}  // namespace braid
