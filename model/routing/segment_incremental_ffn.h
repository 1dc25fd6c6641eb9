// The FFN of a growing sequence whose router decides per segment. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_SEGMENT_INCREMENTAL_FFN_H_
#define BRAID_MODEL_ROUTING_SEGMENT_INCREMENTAL_FFN_H_

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/routing/ffn_weights.h"
#include "model/routing/incremental_ffn.h"

namespace braid {

// Returns an FFN that decides at the first position and, in kSegment mode, at segment starts
// (PREFIX: once, at the second segment). A decision merges the experts, or takes the best one
// (EXPERT_CHOICE_SEGMENT); between decisions it is a dense FFN. `config` must outlive the result.
std::unique_ptr<IncrementalFfn> SegmentIncrementalFfn(const v1::ModelConfig& config,
                                                      const FfnWeights& weights, MergeMode mode);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_SEGMENT_INCREMENTAL_FFN_H_
