// The FFN of a layer for one sequence that comes piece by piece, as decoding
// needs it. Not differentiable. Tensor code: private to trainer/model.
#ifndef BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_
#define BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/routing/ffn_weights.h"

namespace braid {

class IncrementalFfn {
 public:
  virtual ~IncrementalFfn() = default;

  // h + FFN(x) for the next n positions, h and x [n, D]. In kSegment mode a call
  // must not cross the start of a segment, and the first call fixes the routing
  // of the first segment.
  virtual at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x) = 0;

  // h + FFN(x) for C continuations of the sequence by T positions each, h and x
  // [C, T, D], across any number of segments: what AddFfn would give for each of
  // them alone. They leave no trace.
  virtual at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x) const = 0;

  // Whether a position's FFN depends on nothing but that position: AddFfn then takes
  // positions of any sequences in any order.
  virtual bool IsPositionWise() const { return false; }

  // Of the first `common` positions, which a new sequence has in common with this one,
  // how many the state is right for when the new one begins with a prompt of `prompt`
  // tokens: what a router decided from later tokens must not be kept.
  virtual int64_t Reusable(int64_t common, int64_t /*prompt*/) const { return common; }

  // Forgets all behind the first `position` positions; 1 <= position <= Reusable(..).
  virtual void Rewind(int64_t /*position*/) {}

  // How the FFN in use is made of the experts.
  virtual ExpertMixture Mixture() const { return {}; }
};

// One plain FFN for every position.
std::unique_ptr<IncrementalFfn> DenseIncrementalFfn(const FfnWeights& weights);

// The best expert of each token (EXPERT_CHOICE_TOKEN). `config` must outlive it.
std::unique_ptr<IncrementalFfn> TokenIncrementalFfn(const v1::RoutingConfig& config,
                                                    const FfnWeights& weights);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_
