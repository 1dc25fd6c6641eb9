#include "model/routing/expert_choice_routers.h"

#include <ATen/ATen.h>

#include "model/config/model_config.h"
#include "model/kernels/phase_times.h"
#include "model/routing/expert_choice.h"
#include "model/routing/routing_weights.h"
#include "model/routing/segment_incremental_ffn.h"
#include "model/routing/token_choice.h"

namespace braid {
namespace {

struct Choice {
  at::Tensor scores;  // [B, R, E]
  at::Tensor chosen;  // [B, R, E] bool
};

// Outside training an expert must not compare a position with later ones, so instead of experts
// choosing their best decisions, each decision takes its best expert.
Choice Choose(const at::Tensor& scores, MergeMode mode) {
  if (mode != MergeMode::kTraining) return {scores, BestExperts(scores)};
  return {scores, ExpertChoice(scores, ExpertCapacity(scores.size(1), scores.size(2)))};
}

// Repeats the rows of decisions [B, R, E] for each of their positions: [B * L, E].
at::Tensor ForPositions(const at::Tensor& rows, int64_t tokens_per_row, int64_t length) {
  return rows.repeat_interleave(tokens_per_row, 1).narrow(1, 0, length).reshape({-1, rows.size(2)});
}

RoutedFfn AddChosenFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w,
                       const Choice& choice, int64_t tokens_per_row) {
  const int64_t length = x.size(1);
  const TokenChoice pairs = MaskedChoice(ForPositions(choice.scores, tokens_per_row, length),
                                         ForPositions(choice.chosen, tokens_per_row, length));
  const at::Tensor y = TokenChoiceFfn(x.reshape({-1, x.size(2)}), pairs, w.experts());
  return {h + y.view(x.sizes()), choice.scores.detach()};
}

class SegmentChoiceRouter final : public Router {
 public:
  explicit SegmentChoiceRouter(const v1::ModelConfig& model)
      : model_(model), config_(model.routing()) {}

  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode mode,
                   const RoutingContext&) const override {
    return AddChosenFfn(h, x, w, ChooseSegments(x, w.router, mode), config_.segment_length());
  }

  std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights, MergeMode mode,
                                              std::optional<uint64_t>) const override {
    return SegmentIncrementalFfn(model_, weights, mode);
  }

 private:
  Choice ChooseSegments(const at::Tensor& x, const at::Tensor& router, MergeMode mode) const {
    const ScopedPhase phase(Phase::kRouter);
    if (mode != MergeMode::kPrompt) return Choose(SegmentWeights(x, router, config_), mode);
    const at::Tensor prefix = PrefixWeights(x, router, config_).unsqueeze(1);
    return Choose(prefix.expand({x.size(0), NumSegments(x.size(1), config_), prefix.size(2)}),
                  mode);
  }

  const v1::ModelConfig& model_;
  const v1::RoutingConfig& config_;
};

class ExpertChoiceTokenRouter final : public Router {
 public:
  explicit ExpertChoiceTokenRouter(const v1::RoutingConfig& config) : config_(config) {}

  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode mode,
                   const RoutingContext&) const override {
    return AddChosenFfn(h, x, w, ChooseTokens(x, w.router, mode), 1);
  }

  std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights, MergeMode,
                                              std::optional<uint64_t>) const override {
    return TokenIncrementalFfn(config_, weights);
  }

 private:
  Choice ChooseTokens(const at::Tensor& x, const at::Tensor& router, MergeMode mode) const {
    const ScopedPhase phase(Phase::kRouter);
    return Choose(RoutingWeights(x, router, config_), mode);
  }

  const v1::RoutingConfig& config_;
};

}  // namespace

std::unique_ptr<const Router> NewSegmentChoiceRouter(const v1::ModelConfig& config) {
  return std::make_unique<SegmentChoiceRouter>(config);
}

std::unique_ptr<const Router> NewExpertChoiceTokenRouter(const v1::RoutingConfig& config) {
  return std::make_unique<ExpertChoiceTokenRouter>(config);
}

}  // namespace braid
