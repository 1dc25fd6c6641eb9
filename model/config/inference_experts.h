// The number of experts that a token uses outside training.
#ifndef BRAID_MODEL_CONFIG_INFERENCE_EXPERTS_H_
#define BRAID_MODEL_CONFIG_INFERENCE_EXPERTS_H_

#include "braid/v1/model.pb.h"

namespace braid {

// Returns active_experts of a resolved TOKEN_CHOICE model; with the gate RANDOM, which without a
// routing seed is defined outside training only for all experts together, their number. 0 for other
// routers.
inline int InferenceExperts(const v1::ModelConfig& resolved, bool has_routing_seed = false) {
  const v1::RoutingConfig& routing = resolved.routing();
  if (routing.router() != v1::TOKEN_CHOICE) return 0;
  const bool random = routing.token().gate() == v1::TokenRouting::RANDOM;
  return random && !has_routing_seed ? routing.num_experts() : routing.token().active_experts();
}

// Returns whether the number of experts varies by token: with the gate RELU, where active_experts
// is only the mean that training aims at.
inline bool HasVaryingExperts(const v1::ModelConfig& resolved) {
  const v1::RoutingConfig& routing = resolved.routing();
  return routing.router() == v1::TOKEN_CHOICE && routing.token().gate() == v1::TokenRouting::RELU;
}

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_INFERENCE_EXPERTS_H_
