#include "model/routing/token_choice.h"

#include <ATen/ATen.h>

#include "model/kernels/expert_selection.h"
#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/routed_ffn_function.h"
#include "model/routing/routing_weights.h"
#include "model/routing/sparse_ffn.h"

namespace braid {
namespace {

// Below this number of tokens a panel has too few rows for its products, and matrix-vector products
// of the BLAS are faster.
constexpr int64_t kFewTokens = 8;

ExpertSelection SelectionOf(const v1::TokenRouting& token) {
  switch (token.selection()) {
    case v1::TokenRouting::BOTTOM:
      return ExpertSelection::kBottom;
    case v1::TokenRouting::NOT_TOP:
      return ExpertSelection::kNotTop;
    default:
      return ExpertSelection::kTop;
  }
}

at::Tensor Select(const at::Tensor& scores, const v1::TokenRouting& token, bool allow_nan) {
  const at::Tensor host = scores.detach().to(at::kCPU, at::kFloat).contiguous();
  const int64_t tokens = host.size(0), experts = host.size(1), k = token.active_experts();
  at::Tensor chosen = at::empty({tokens, k}, at::kInt);
  const int64_t undefined = SelectExperts(host.data_ptr<float>(), tokens, experts, k,
                                          SelectionOf(token), chosen.data_ptr<int32_t>());
  TORCH_CHECK(undefined < 0 || allow_nan, "gate: a score of token ", undefined,
              " is not a number; the weights or activations before it are not finite");
  return chosen.to(scores.device());
}

at::Tensor CombineWeights(const at::Tensor& scores, const at::Tensor& chosen,
                          const v1::TokenRouting& token) {
  const at::Tensor index = chosen.to(at::kLong);
  switch (token.combine_weights()) {
    case v1::TokenRouting::ONES:
      return {};
    case v1::TokenRouting::EQUAL:
      return at::full(chosen.sizes(), 1.0 / static_cast<double>(chosen.size(1)), scores.options());
    case v1::TokenRouting::CHOSEN_OF_SOFTMAX:
      return at::softmax(scores, 1).gather(1, index);
    default:
      return at::softmax(scores.gather(1, index), 1);
  }
}

// The definition, for any type and device.
at::Tensor ExpertByExpert(const at::Tensor& x, const TokenChoice& choice,
                          const SoftExperts& experts) {
  const at::Tensor index = choice.chosen.to(at::kLong);
  const at::Tensor weights =
      choice.weights.defined() ? choice.weights : at::ones(index.sizes(), x.options());
  const at::Tensor none = at::zeros({x.size(0), experts.down.size(0)}, x.options());
  const at::Tensor chosen = at::zeros(none.sizes(), none.options().dtype(at::kBool));
  return SparseFfn(x, none.scatter(1, index, weights), chosen.scatter(1, index, true), experts);
}

}  // namespace

at::Tensor GateScores(const at::Tensor& x, const FfnWeights& weights,
                      const v1::RoutingConfig& config) {
  at::Tensor matrix = weights.router;
  if (config.token().gate() == v1::TokenRouting::KEY_MEAN) {
    matrix = weights.gate_up[0].detach().mean(1);
  }
  return RouterScores(x, matrix, config);
}

TokenChoice ChooseExperts(const at::Tensor& scores, const v1::TokenRouting& token, bool allow_nan) {
  const at::Tensor chosen = Select(scores, token, allow_nan);
  return {chosen, CombineWeights(scores, chosen, token)};
}

at::Tensor TokenChoiceFfn(const at::Tensor& x, const TokenChoice& choice,
                          const SoftExperts& experts) {
  const bool few = !at::GradMode::is_enabled() && x.size(0) < kFewTokens;
  if (few || !CanFuseFfn(x)) return ExpertByExpert(x, choice, experts);
  return FusedRoutedFfn(x, choice.chosen, choice.weights, experts);
}

at::Tensor BalanceLoss(const at::Tensor& probabilities, const at::Tensor& chosen,
                       const at::Tensor& counted) {
  const at::Tensor tokens = counted.sum(1).clamp_min(1).unsqueeze(1);              // [B, 1]
  const at::Tensor mean = (probabilities * counted.unsqueeze(2)).sum(1) / tokens;  // [B, N]
  const at::Tensor pairs =
      at::zeros_like(probabilities).scatter(2, chosen.to(at::kLong), 1.0) * counted.unsqueeze(2);
  const at::Tensor load =
      pairs.sum(1) / (tokens * static_cast<double>(chosen.size(2)));  // [B, N], no gradient
  return (load.detach() * mean).sum(1) * static_cast<double>(probabilities.size(2));
}

}  // namespace braid
