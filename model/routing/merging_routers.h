// Routers that average experts into one FFN (arXiv 2405.03133). Tensor code:
// private to trainer/model.
#ifndef BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_
#define BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/routing/router.h"

namespace braid {

// Algorithm 1: a segment's FFN is merged with weights from the segment before
// it. `config` must outlive the router, here and below.
std::unique_ptr<const Router> NewCausalSegmentRouter(const v1::RoutingConfig& config);

// Section 5.1: merged once a sequence, from its first segment, and used by all
// later ones. The first segment itself uses what first_segment says, without
// gradient, so that the router learns from later segments only.
std::unique_ptr<const Router> NewPrefixRouter(const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_MERGING_ROUTERS_H_
