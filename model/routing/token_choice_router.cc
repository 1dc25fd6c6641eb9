#include "model/routing/token_choice_router.h"

#include <ATen/ATen.h>

#include "model/kernels/phase_times.h"
#include "model/routing/document_pools.h"
#include "model/routing/gate_noise.h"
#include "model/routing/routing_weights.h"
#include "model/routing/token_choice.h"
#include "model/routing/training_dropout.h"

namespace braid {
namespace {

// Returns the scores of the gate RANDOM, [B * L, N].
at::Tensor RandomScores(const RoutingContext& context, const FfnWeights& w, int64_t batch,
                        int64_t length) {
  const int64_t experts = w.down.size(0);
  if (!context.routing_seed.has_value()) return UniformScores(context, batch, length, experts);
  return SeededScores(*context.routing_seed, w.layer, 0, length, experts).repeat({batch, 1});
}

class TokenChoiceRouter final : public Router {
 public:
  explicit TokenChoiceRouter(const v1::ModelConfig& model)
      : model_(model), config_(model.routing()) {}

  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode mode,
                   const RoutingContext& context) const override {
    const bool training = mode == MergeMode::kTraining;
    const int64_t batch = x.size(0), length = x.size(1);
    const at::Tensor rows = x.reshape({-1, x.size(2)});
    const Decision decision = Decide(x, rows, w, training, context);
    const TokenChoice choice = DropExperts(decision.choice, context, batch, length, x.options());
    const FfnDropout dropout = DropoutOf(context, w, batch, length, w.down.size(1));
    const at::Tensor y = TokenChoiceFfn(rows, choice, w.experts(), dropout);
    RoutedFfn result = {h + y.view(h.sizes()),
                        decision.probabilities.detach(),
                        decision.choice.chosen.view({batch, length, -1}),
                        {}};
    if (training && context.counted.defined()) {
      result.balance_loss = GateLoss(decision, context.counted.to(x.dtype()));
      if (w.input_mean.defined()) {
        const at::Tensor counted = context.counted.to(at::kDouble).unsqueeze(2);
        result.input_sum = (x.detach().to(at::kDouble) * counted).flatten(0, 1).sum(0);
      }
    }
    if (dropout.drops()) {
      result.dropout_loss = ConcreteLoss(w, config_.token().active_experts() * w.down.size(1));
    }
    return result;
  }

  std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights, MergeMode,
                                              std::optional<uint64_t> routing_seed) const override {
    return TokenChoiceIncrementalFfn(model_, weights, routing_seed);
  }

 private:
  struct Decision {
    TokenChoice choice;
    at::Tensor probabilities;  // [B, L, N]
  };

  at::Tensor GateLoss(const Decision& decision, const at::Tensor& counted) const {
    const at::IntArrayRef shape = decision.probabilities.sizes();
    if (config_.token().gate() == v1::TokenRouting::RELU) {
      return GatePenalty(decision.choice.weights.view(shape), counted);
    }
    if (config_.token().balance_loss() == 0) return {};
    return BalanceLoss(decision.probabilities,
                       decision.choice.chosen.view({shape[0], shape[1], -1}), counted);
  }

  Decision Decide(const at::Tensor& x, const at::Tensor& rows, const FfnWeights& w, bool training,
                  const RoutingContext& context) const {
    const ScopedPhase phase(Phase::kRouter);
    const int64_t batch = x.size(0), length = x.size(1), experts = w.down.size(0);
    const v1::TokenRouting& token = config_.token();
    if (token.gate() == v1::TokenRouting::RANDOM) {
      const at::Tensor scores =
          RandomScores(context, w, batch, length).to(x.device(), x.scalar_type());
      return {ChooseExperts(scores, token, /*allow_nan=*/false),
              UniformWeights({batch, length, experts}, x.options().requires_grad(false))};
    }
    at::Tensor scores = GateScores(rows, context.tokens, w, config_);
    if (training && token.gate_noise_std() > 0) {
      const at::Tensor noise = NormalNoise(context, batch, length, experts);
      scores = scores + noise.to(x.device(), x.scalar_type()) * token.gate_noise_std();
    }
    const at::Tensor open = scores;
    if (token.has_document_pool()) {
      TORCH_CHECK(context.document_starts.defined(), "document_pool: the pass has no documents");
      scores = PooledScores(scores, context.document_starts, config_);
    }
    // Without a balance loss the probabilities only enter metrics.
    const at::Tensor probabilities =
        at::softmax(token.balance_loss() > 0 ? open : open.detach(), 1);
    // In training a NaN reaches the loss, which is reported with its step and instances.
    return {ChooseExperts(scores, token, /*allow_nan=*/training),
            probabilities.view({batch, length, experts})};
  }

  const v1::ModelConfig& model_;
  const v1::RoutingConfig& config_;
};

}  // namespace

std::unique_ptr<const Router> NewTokenChoiceRouter(const v1::ModelConfig& config) {
  return std::make_unique<TokenChoiceRouter>(config);
}

}  // namespace braid
