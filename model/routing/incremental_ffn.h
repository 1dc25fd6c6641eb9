// The FFN of a layer for one sequence that grows during decoding. Not differentiable. Tensor code:
// private to model/.
#ifndef BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_
#define BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/routing/ffn_weights.h"

namespace braid {

class IncrementalFfn {
 public:
  virtual ~IncrementalFfn() = default;

  // Returns h + FFN(x) for the next n positions, h and x [n, D], tokens [n] int64. The first call
  // fixes the routing of the first segment, from those of its positions that it has, and in kPrompt
  // mode that of the sequence.
  virtual at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x, const at::Tensor& tokens) = 0;

  // Returns h + FFN(x) for C continuations of the sequence by T positions each, h and x [C, T, D],
  // tokens [C, T], across any number of segments: what AddFfn would return for each of them alone.
  // The state of the sequence is unchanged.
  virtual at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x,
                                  const at::Tensor& tokens) const = 0;

  // Returns true when the FFN of a position depends on that position only. AddFfn then accepts
  // positions of any sequences in any order.
  virtual bool IsPositionWise() const { return false; }

  // Returns how many of the first `common` positions remain valid if a new sequence shares them and
  // begins with a prompt of `prompt` tokens. Routing decided on later tokens must not be reused.
  virtual int64_t Reusable(int64_t common, int64_t /*prompt*/) const { return common; }

  // Truncates the state to the first `position` positions. Requires 1 <= position <= Reusable(..).
  virtual void Rewind(int64_t /*position*/) {}

  // Returns a copy with the same state, which later calls on either do not share.
  virtual std::unique_ptr<IncrementalFfn> Clone() const = 0;

  // Returns the mixture of experts that makes up the FFN in use.
  virtual ExpertMixture Mixture() const { return {}; }
};

// Returns a dense FFN, the same for every position.
std::unique_ptr<IncrementalFfn> DenseIncrementalFfn(const FfnWeights& weights);

// Returns an FFN that uses the best expert of each token (EXPERT_CHOICE_TOKEN). `config` must
// outlive it.
std::unique_ptr<IncrementalFfn> TokenIncrementalFfn(const v1::RoutingConfig& config,
                                                    const FfnWeights& weights);

// Returns an FFN in which each token chooses its experts (TOKEN_CHOICE), with the gate RANDOM by
// SeededScores of `routing_seed`. `config` must outlive it.
std::unique_ptr<IncrementalFfn> TokenChoiceIncrementalFfn(const v1::ModelConfig& config,
                                                          const FfnWeights& weights,
                                                          std::optional<uint64_t> routing_seed);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_INCREMENTAL_FFN_H_
