// Expert choice (arXiv 2202.09368) at capacity factor 1, the two sparse models
// that arXiv 2405.03133 compares with (section 5.3). Tensor code: private to
// trainer/model.
//
// In training every expert takes the ExpertCapacity decisions of a sequence that
// score highest with it, so experts are balanced by construction; a decision may
// be taken by several experts or none, and no more than its residual passes
// then. That looks at the whole sequence. In any other mode each decision goes
// to its best expert, which is causal (as section 5.3 does for inference).
// An expert's output is scaled by the score, which is how the router learns.
#ifndef BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_
#define BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/routing/router.h"

namespace braid {

// A decision is a segment, scored as in causal segment routing (SegmentWeights);
// an expert works on all its positions. In kPrompt mode all segments share the
// score of the prefix. `config` must outlive the router, here and below.
std::unique_ptr<const Router> NewSegmentChoiceRouter(const v1::RoutingConfig& config);

// A decision is a token, scored on its own FFN input.
std::unique_ptr<const Router> NewTokenChoiceRouter(const v1::RoutingConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_EXPERT_CHOICE_ROUTERS_H_
