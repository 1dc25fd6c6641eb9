// Routers that average experts into one FFN (arXiv 2405.03133). Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_
#define BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/routing/router.h"

namespace braid {

// Returns the router of Algorithm 1: the FFN of a segment is merged with weights computed from the
// segment before it. `config` must outlive the router.
std::unique_ptr<const Router> NewCausalSegmentRouter(const v1::ModelConfig& config);

// Returns the router of section 5.1: experts are merged once per sequence, from its first segment,
// for all later segments. The first segment itself uses FirstSegmentWeights, without gradient, so
// the router learns from later segments only. `config` must outlive the router.
std::unique_ptr<const Router> NewPrefixRouter(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_
