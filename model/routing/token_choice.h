// Experts chosen by each token (sparse mixture of experts, arXiv 1701.06538): scores of a gate, the
// choice, combine weights, and the FFN of the chosen experts. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_TOKEN_CHOICE_H_
#define BRAID_MODEL_ROUTING_TOKEN_CHOICE_H_

#include <ATen/core/Tensor.h>

#include "braid/v1/model.pb.h"
#include "model/kernels/ffn_dropout.h"
#include "model/routing/ffn_weights.h"

namespace braid {

// The N experts' scores for each of T tokens, and what a token uses of them.
struct TokenChoice {
  at::Tensor chosen;   // [T, k] int32, ascending; -1 at any place for an absent expert
  at::Tensor weights;  // [T, k], differentiable in the scores; undefined for 1
};

// A gate of cosines: of a projection of its input and a vector of each choice.
struct CosineGate {
  at::Tensor projection;  // [P, D]
  at::Tensor vectors;     // [N, P]
  at::Tensor log_scale;   // [1]: logarithm of 1 / temperature
};

// Returns the cosines of x [T, D] divided by the temperature, [T, N]. Differentiable in everything;
// a projection or vector of zeros has cosines of 0 and no gradient.
at::Tensor CosineScores(const at::Tensor& x, const CosineGate& gate);

// Returns the gate's scores of x [T, D], less the mean of inputs where weights have one, with
// tokens [T] int64, [T, N]. Requires a gate other than RANDOM. Differentiable in x, and in the
// router matrices where the gate is trained. The gate HASH without tokens is an error, reported as
// an exception of the tensor library.
at::Tensor GateScores(const at::Tensor& x, const at::Tensor& tokens, const FfnWeights& weights,
                      const v1::RoutingConfig& config);

// Returns weights.router or, where it is undefined, the means of the rows of the experts' first
// matrices, [N, D]: the gate KEY_MEAN. Decoders, whose weights do not change, compute them once.
at::Tensor GateMatrix(const FfnWeights& weights);

// Chooses experts by scores [T, N]. A token with a score that is not a number is an error, reported
// as an exception of the tensor library, unless `allow_nan`: its choice is then arbitrary, and NaN
// passes on to its output. With the gate RELU a token chooses every expert with a positive score,
// [T, N] with absent ones.
TokenChoice ChooseExperts(const at::Tensor& scores, const v1::TokenRouting& token, bool allow_nan);

// Returns the chosen experts and weights of rows gates [T, N] with a mask [T, N] bool of what is
// chosen. Differentiable in the gates.
TokenChoice MaskedChoice(const at::Tensor& gates, const at::Tensor& mask);

// Returns sum over the chosen experts of weight * FFN(x) for x [T, D] -> [T, D], plus the output
// bias where there is one; a token without experts gives zeros, or that bias. Differentiable in x,
// weights, all expert tensors and the logit of dropout. In single precision on a CPU this is
// the routed kernel; any other type or device uses products expert by expert.
at::Tensor TokenChoiceFfn(const at::Tensor& x, const TokenChoice& choice,
                          const SoftExperts& experts, const FfnDropout& dropout = {});

// Returns the balance loss N sum_e f_e P_e of each sequence [B] (arXiv 2101.03961, equation 4): f
// is the share of the sequence's pairs that expert e received, P the mean of probabilities [B, L,
// N]. counted [B, L] excludes padding; chosen is [B, L, k]. A sequence without counted positions
// gives 0. Absent experts count as no pair.
at::Tensor BalanceLoss(const at::Tensor& probabilities, const at::Tensor& chosen,
                       const at::Tensor& counted);

// Returns the penalty of the gate RELU of each sequence [B]: the sum of weights [B, L, N], averaged
// over the counted positions (arXiv 2412.14711, equation 6).
at::Tensor GatePenalty(const at::Tensor& weights, const at::Tensor& counted);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_TOKEN_CHOICE_H_
