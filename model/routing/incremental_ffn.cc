#include "model/routing/incremental_ffn.h"

#include <ATen/ATen.h>

#include "model/kernels/gelu_ffn.h"
#include "model/kernels/swiglu.h"
#include "model/routing/expert_choice.h"
#include "model/routing/routing_weights.h"
#include "model/routing/token_choice.h"

namespace braid {
namespace {

class PositionWiseFfn : public IncrementalFfn {
 public:
  at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x,
                          const at::Tensor& tokens) const override {
    return Apply(h.flatten(0, 1), x.flatten(0, 1), tokens.flatten()).view(h.sizes());
  }

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x, const at::Tensor& tokens) override {
    return Apply(h, x, tokens);
  }

  bool IsPositionWise() const override { return true; }

 private:
  // Returns h + FFN(x) for h and x [T, D], tokens [T].
  virtual at::Tensor Apply(const at::Tensor& h, const at::Tensor& x,
                           const at::Tensor& tokens) const = 0;
};

class DenseIncremental final : public PositionWiseFfn {
 public:
  explicit DenseIncremental(const FfnWeights& weights) : weights_(weights) {}

  std::unique_ptr<IncrementalFfn> Clone() const override {
    return std::make_unique<DenseIncremental>(*this);
  }

 private:
  at::Tensor Apply(const at::Tensor& h, const at::Tensor& x, const at::Tensor&) const override {
    const FfnWeights& w = weights_;
    if (w.up_bias.defined()) {
      return h + GeluFfn(x, {w.gate_up, w.up_bias, w.down, w.down_bias});
    }
    return at::addmm(h, SwiGluForward(at::mm(x, w.gate_up.t())), w.down);
  }

  const FfnWeights weights_;
};

class TokenIncremental final : public PositionWiseFfn {
 public:
  TokenIncremental(const v1::RoutingConfig& config, const FfnWeights& weights)
      : config_(config), weights_(weights) {}

  std::unique_ptr<IncrementalFfn> Clone() const override {
    return std::make_unique<TokenIncremental>(*this);
  }

 private:
  at::Tensor Apply(const at::Tensor& h, const at::Tensor& x, const at::Tensor&) const override {
    const at::Tensor scores = RoutingWeights(x, weights_.router, config_);
    return h + TokenChoiceFfn(x, MaskedChoice(scores, BestExperts(scores)), weights_.experts());
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
};

class TokenChoiceIncremental final : public PositionWiseFfn {
 public:
  TokenChoiceIncremental(const v1::RoutingConfig& config, const FfnWeights& weights)
      : config_(config), weights_(weights) {}

  std::unique_ptr<IncrementalFfn> Clone() const override {
    return std::make_unique<TokenChoiceIncremental>(*this);
  }

 private:
  at::Tensor Apply(const at::Tensor& h, const at::Tensor& x,
                   const at::Tensor& tokens) const override {
    // All experts are active with the gate RANDOM, whose scores are then irrelevant.
    const at::Tensor scores = config_.token().gate() == v1::TokenRouting::RANDOM
                                  ? at::zeros({x.size(0), weights_.down.size(0)}, x.options())
                                  : GateScores(x, tokens, weights_, config_);
    const TokenChoice choice = ChooseExperts(scores, config_.token(), /*allow_nan=*/false);
    return h + TokenChoiceFfn(x, choice, weights_.experts());
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
};

}  // namespace

std::unique_ptr<IncrementalFfn> DenseIncrementalFfn(const FfnWeights& weights) {
  return std::make_unique<DenseIncremental>(weights);
}

std::unique_ptr<IncrementalFfn> TokenIncrementalFfn(const v1::RoutingConfig& config,
                                                    const FfnWeights& weights) {
  return std::make_unique<TokenIncremental>(config, weights);
}

std::unique_ptr<IncrementalFfn> TokenChoiceIncrementalFfn(const v1::ModelConfig& config,
                                                          const FfnWeights& weights) {
  return std::make_unique<TokenChoiceIncremental>(config.routing(), weights);
}

}  // namespace braid
