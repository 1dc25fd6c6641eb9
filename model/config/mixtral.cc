#include "model/config/mixtral.h"

#include "absl/strings/str_cat.h"

namespace braid {

std::string WhyNotMixtral(const v1::ModelConfig& resolved) {
  using Token = v1::TokenRouting;
  const v1::RoutingConfig& routing = resolved.routing();
  const Token& token = routing.token();
  if (!routing.moe_layers().empty()) return "some layers are dense";
  if (token.gate() != Token::LINEAR && token.gate() != Token::FROZEN) {
    return absl::StrCat("the gate is ", Token::Gate_Name(token.gate()),
                        ", expected LINEAR or FROZEN");
  }
  if (token.combine_weights() != Token::SOFTMAX_OF_CHOSEN) {
    return absl::StrCat("the combine weights are ",
                        Token::CombineWeights_Name(token.combine_weights()),
                        ", expected SOFTMAX_OF_CHOSEN");
  }
  if (token.selection() != Token::TOP) {
    return absl::StrCat("the selection is ", Token::Selection_Name(token.selection()),
                        ", expected TOP");
  }
  if (routing.router_input() != v1::PLAIN_MEAN) {
    return absl::StrCat("the input of the gate is ", v1::RouterInput_Name(routing.router_input()),
                        ", expected PLAIN_MEAN");
  }
  if (resolved.qkv_bias() || resolved.qk_norm()) return "attention has biases or norms";
  return resolved.logit_soft_cap() > 0 ? "the logits are bounded (logit_soft_cap)" : "";
}

}  // namespace braid
