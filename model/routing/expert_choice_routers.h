// Expert choice (arXiv 2202.09368) at capacity factor 1: the two sparse baselines of arXiv
// 2405.03133, section 5.3. Tensor code: private to model/.
//
// In training every expert takes the ExpertCapacity decisions of a sequence that score highest with
// it, so experts are balanced by construction. A decision may be taken by several experts or by
// none; if none takes it, only its residual stream passes. This looks at the whole sequence. In any
// other mode each decision goes to its best expert, which is causal (as in section 5.3 for
// inference). The output of an expert is scaled by the score, which gives the router its gradient.
#ifndef BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_
#define BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/routing/router.h"

namespace braid {

// Returns a router whose decisions are segments, scored as in causal segment routing
// (SegmentWeights); an expert processes all positions of a segment. In kPrompt mode all segments
// share the score of the first one. `config` must outlive the router.
std::unique_ptr<const Router> NewSegmentChoiceRouter(const v1::ModelConfig& config);

// Returns a router whose decisions are tokens, each scored on its own FFN input. `config` must
// outlive the router.
std::unique_ptr<const Router> NewExpertChoiceTokenRouter(const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_
