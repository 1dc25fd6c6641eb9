#include "model/routing/token_choice.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/kernels/chosen_softmax.h"
#include "model/kernels/expert_selection.h"
#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/gelu_ffn.h"
#include "model/kernels/phase_times.h"
#include "model/kernels/product.h"
#include "model/kernels/routed_ffn_function.h"
#include "model/routing/gate_noise.h"
#include "model/routing/routing_weights.h"

namespace braid {
namespace {

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

// Returns the chosen experts [T, k], and sets *undefined to the first token with a score that is
// not a number, or -1.
at::Tensor Select(const at::Tensor& scores, const v1::TokenRouting& token, int64_t* undefined) {
  const at::Tensor host = scores.detach().to(at::kCPU, at::kFloat).contiguous();
  const int64_t tokens = host.size(0), experts = host.size(1), k = token.active_experts();
  at::Tensor chosen = at::empty({tokens, k}, at::kInt);
  *undefined = SelectExperts(host.data_ptr<float>(), tokens, experts, k, SelectionOf(token),
                             chosen.data_ptr<int32_t>());
  return chosen.to(scores.device());
}

at::Tensor CombineWeights(const at::Tensor& scores, const at::Tensor& chosen,
                          const v1::TokenRouting& token) {
  switch (token.combine_weights()) {
    case v1::TokenRouting::ONES:
      return {};
    case v1::TokenRouting::EQUAL:
      return at::full(chosen.sizes(), 1.0 / static_cast<double>(chosen.size(1)), scores.options());
    case v1::TokenRouting::CHOSEN_OF_SOFTMAX:
      return at::softmax(scores, 1).gather(1, chosen.to(at::kLong));
    default:
      return ChosenSoftmax(scores, chosen);
  }
}

// Rows of x, and their places in an array [T, k], that use one expert.
struct ExpertRows {
  std::vector<int64_t> tokens, places;
};

std::vector<ExpertRows> RowsOfExperts(const at::Tensor& chosen, int64_t num_experts) {
  const at::Tensor host = chosen.to(at::kCPU).contiguous();
  const int32_t* const expert = host.data_ptr<int32_t>();
  std::vector<ExpertRows> rows(num_experts);
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (expert[i] < 0) continue;
    rows[expert[i]].tokens.push_back(i / host.size(1));
    rows[expert[i]].places.push_back(i);
  }
  return rows;
}

// The hidden values of expert e for its tokens x [T, D], [T, F]. up holds the matrices of one or
// two kinds by expert, [F, D] each.
at::Tensor HiddenValues(const at::Tensor& x, const std::vector<std::vector<at::Tensor>>& up,
                        const std::vector<at::Tensor>& biases, int64_t e) {
  if (!biases.empty()) return Gelu(AddProduct(biases[e], x, up[0][e].t()));
  return at::silu(Product(x, up[0][e].t())) * Product(x, up[1][e].t());
}

// The definition, for any type and device, without the output bias. Gradients of the experts are
// put together once.
at::Tensor ExpertByExpert(const at::Tensor& x, const TokenChoice& choice,
                          const SoftExperts& experts, const FfnDropout& dropout) {
  const ScopedPhase phase(Phase::kFfn);
  const int64_t count = experts.down.size(0), units = experts.down.size(1);
  const at::Tensor factors =
      dropout.drops() ? DropoutFactors(dropout, count * units, x.options()) : at::Tensor();
  const std::vector<ExpertRows> rows = RowsOfExperts(choice.chosen, count);
  std::vector<std::vector<at::Tensor>> up;
  for (const at::Tensor& kind : experts.gate_up.unbind()) up.push_back(kind.unbind());
  const std::vector<at::Tensor> down = experts.down.unbind();
  const std::vector<at::Tensor> biases =
      experts.up_bias.defined() ? experts.up_bias.unbind() : std::vector<at::Tensor>();
  at::Tensor y = at::zeros_like(x);
  for (int64_t e = 0; e < count; ++e) {
    // With gradients, an expert without rows reports zeros.
    if (rows[e].tokens.empty() && !at::GradMode::is_enabled()) continue;
    const auto indices = [&](const std::vector<int64_t>& values) {
      return at::tensor(at::ArrayRef<int64_t>(values), at::kLong).to(x.device());
    };
    const at::Tensor tokens = indices(rows[e].tokens), own = x.index_select(0, tokens);
    at::Tensor hidden = HiddenValues(own, up, biases, e);
    if (factors.defined()) {
      hidden = hidden * factors.index_select(0, tokens).narrow(1, e * units, units);
    }
    at::Tensor out = Product(hidden, down[e]);
    if (choice.weights.defined()) {
      const at::Tensor weights = choice.weights.flatten().index_select(0, indices(rows[e].places));
      out = out * weights.unsqueeze(1);
    }
    y.index_add_(0, tokens, out);
  }
  return y;
}

TokenChoice ChoosePositive(const at::Tensor& scores, bool allow_nan) {
  const at::Tensor undefined = scores.detach().isnan().any(1);
  TORCH_CHECK(allow_nan || !undefined.any().item<bool>(),
              "gate: a score of a token is not a number; the weights or activations before it are "
              "not finite");
  // A NaN passes on to the output.
  const at::Tensor mask = scores.detach().gt(0).logical_or(scores.detach().isnan());
  return MaskedChoice(scores, mask);
}

}  // namespace

at::Tensor CosineScores(const at::Tensor& x, const CosineGate& gate) {
  // As the released code of X-MoE does: cosines are multiplied by at most 100.
  const at::Tensor scale = gate.log_scale.clamp_max(std::log(100.0)).exp();
  const at::Tensor projected = at::mm(x, gate.projection.t());
  // A row of zeros has no direction. Divided by infinity it gives cosines of 0 and a gradient of 0,
  // where 1e-12 would give a gradient of 1e12.
  const auto unit = [](const at::Tensor& rows) {
    const at::Tensor norm = rows.norm(2, {1}, /*keepdim=*/true);
    return rows /
           norm.clamp_min(1e-12).masked_fill(norm.eq(0), std::numeric_limits<double>::infinity());
  };
  return at::mm(unit(projected), unit(gate.vectors).t()) * scale;
}

at::Tensor GateScores(const at::Tensor& input, const at::Tensor& tokens, const FfnWeights& weights,
                      const v1::RoutingConfig& config) {
  const at::Tensor x = weights.input_mean.defined() ? input - weights.input_mean : input;
  if (config.token().gate() == v1::TokenRouting::COSINE) {
    return CosineScores(x, {weights.router_projection, weights.router, weights.router_scale});
  }
  if (config.token().gate() == v1::TokenRouting::HASH) {
    TORCH_CHECK(tokens.defined(),
                "gate: HASH chooses by token ids, which are not given here; set "
                "RoutingContext::tokens, or use a gate that needs none, such as FROZEN");
    return HashScores(tokens.flatten(), weights.layer, weights.down.size(0))
        .to(x.device(), x.scalar_type());
  }
  return RouterScores(x, GateMatrix(weights), config);
}

at::Tensor GateMatrix(const FfnWeights& weights) {
  return weights.router.defined() ? weights.router : weights.gate_up[0].detach().mean(1);
}

TokenChoice ChooseExperts(const at::Tensor& scores, const v1::TokenRouting& token, bool allow_nan) {
  if (token.gate() == v1::TokenRouting::RELU) return ChoosePositive(scores, allow_nan);
  int64_t undefined = -1;
  const at::Tensor chosen = Select(scores, token, &undefined);
  TORCH_CHECK(undefined < 0 || allow_nan, "gate: a score of token ", undefined,
              " is not a number; the weights or activations before it are not finite");
  const at::Tensor weights = CombineWeights(scores, chosen, token);
  if (undefined < 0) return {chosen, weights};
  // Weights may not depend on the score that is not a number: it may be that of another expert, and
  // some weights are constants.
  const at::Tensor rows = scores.detach().isnan().any(1, /*keepdim=*/true);
  return {chosen, (weights.defined() ? weights : at::ones(chosen.sizes(), scores.options()))
                      .masked_fill(rows, std::numeric_limits<double>::quiet_NaN())};
}

TokenChoice MaskedChoice(const at::Tensor& gates, const at::Tensor& mask) {
  const at::Tensor experts =
      at::arange(gates.size(1), gates.options().dtype(at::kInt).requires_grad(false));
  return {experts.expand(gates.sizes()).masked_fill(mask.logical_not(), -1).contiguous(),
          gates.masked_fill(mask.logical_not(), 0)};
}

at::Tensor TokenChoiceFfn(const at::Tensor& x, const TokenChoice& choice,
                          const SoftExperts& experts, const FfnDropout& dropout) {
  if (experts.up_bias.defined()) {
    return ExpertByExpert(x, choice, experts, dropout) + experts.down_bias;
  }
  if (!CanFuseFfn(x)) return ExpertByExpert(x, choice, experts, dropout);
  return FusedRoutedFfn(x, choice.chosen, choice.weights, experts, dropout);
}

at::Tensor BalanceLoss(const at::Tensor& probabilities, const at::Tensor& chosen,
                       const at::Tensor& counted) {
  const at::Tensor tokens = counted.sum(1).clamp_min(1).unsqueeze(1);              // [B, 1]
  const at::Tensor mean = (probabilities * counted.unsqueeze(2)).sum(1) / tokens;  // [B, N]
  const at::Tensor pairs = at::zeros_like(probabilities)
                               .scatter_add(2, chosen.clamp_min(0).to(at::kLong),
                                            chosen.ge(0).to(probabilities.dtype())) *
                           counted.unsqueeze(2);
  const at::Tensor load =
      pairs.sum(1) / (tokens * static_cast<double>(chosen.size(2)));  // [B, N], no gradient
  return (load.detach() * mean).sum(1) * static_cast<double>(probabilities.size(2));
}

at::Tensor GatePenalty(const at::Tensor& weights, const at::Tensor& counted) {
  return (weights.sum(2) * counted).sum(1) / counted.sum(1).clamp_min(1);
}

}  // namespace braid
