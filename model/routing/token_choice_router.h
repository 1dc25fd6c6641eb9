// The router of TOKEN_CHOICE. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_TOKEN_CHOICE_ROUTER_H_
#define BRAID_MODEL_ROUTING_TOKEN_CHOICE_ROUTER_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/routing/router.h"

namespace braid {

// Returns a router whose tokens each choose token.active_experts experts, in every mode. Noise is
// added to the scores in training only; outside training the gate RANDOM needs a routing seed or
// all experts active. `config` must outlive the router, and its active_experts may change between
// calls.
std::unique_ptr<const Router> NewTokenChoiceRouter(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_TOKEN_CHOICE_ROUTER_H_
