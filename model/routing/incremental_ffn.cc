#include "model/routing/incremental_ffn.h"

#include <ATen/ATen.h>

#include "model/config/document_config.h"
#include "model/kernels/gelu_ffn.h"
#include "model/kernels/product.h"
#include "model/kernels/swiglu.h"
#include "model/routing/document_pools.h"
#include "model/routing/expert_choice.h"
#include "model/routing/gate_noise.h"
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
    return AddProduct(h, SwiGluForward(Product(x, w.gate_up.t())), w.down);
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
    // Without a seed all experts are active with the gate RANDOM, whose scores are irrelevant.
    const at::Tensor scores = config_.token().gate() == v1::TokenRouting::RANDOM
                                  ? at::zeros({x.size(0), weights_.down.size(0)}, x.options())
                                  : GateScores(x, tokens, weights_, config_);
    const TokenChoice choice = ChooseExperts(scores, config_.token(), /*allow_nan=*/false);
    return h + TokenChoiceFfn(x, choice, weights_.experts());
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
};

// TOKEN_CHOICE whose choices depend on the position: the gate RANDOM with a seed.
class SeededIncremental final : public IncrementalFfn {
 public:
  SeededIncremental(const v1::RoutingConfig& config, const FfnWeights& weights, uint64_t seed)
      : config_(config), weights_(weights), seed_(seed) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x, const at::Tensor&) override {
    const at::Tensor y = h + Ffn(x, Scores(x.size(0), x));
    position_ += x.size(0);
    return y;
  }

  at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x,
                          const at::Tensor&) const override {
    const at::Tensor scores = Scores(x.size(1), x).repeat({x.size(0), 1});
    return h + Ffn(x.flatten(0, 1), scores).view(h.sizes());
  }

  void Rewind(int64_t position) override { position_ = position; }

  std::unique_ptr<IncrementalFfn> Clone() const override {
    return std::make_unique<SeededIncremental>(*this);
  }

 private:
  // Returns the scores of the next `count` positions, of the type of x.
  at::Tensor Scores(int64_t count, const at::Tensor& x) const {
    return SeededScores(seed_, weights_.layer, position_, count, weights_.down.size(0))
        .to(x.device(), x.scalar_type());
  }

  at::Tensor Ffn(const at::Tensor& x, const at::Tensor& scores) const {
    return TokenChoiceFfn(x, ChooseExperts(scores, config_.token(), /*allow_nan=*/false),
                          weights_.experts());
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
  const uint64_t seed_;
  int64_t position_ = 0;
};

// TOKEN_CHOICE with a pool of experts for each document.
class PooledIncremental final : public IncrementalFfn {
 public:
  PooledIncremental(const v1::ModelConfig& model, const FfnWeights& weights)
      : config_(model.routing()),
        weights_(weights),
        document_end_(UsesDocumentEnd(model) ? model.document_end() : -1),
        pools_(model.routing()) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x, const at::Tensor& tokens) override {
    const at::Tensor host = tokens.to(at::kCPU, at::kLong).contiguous();
    const int64_t* const token = host.data_ptr<int64_t>();
    std::vector<uint8_t> begins;
    for (int64_t i = 0; i < host.numel(); ++i) {
      begins.push_back(ended_);
      ended_ = token[i] == document_end_;
    }
    const at::Tensor scores =
        PooledScores(GateScores(x, tokens, weights_, config_), begins, &pools_);
    return h + TokenChoiceFfn(x, ChooseExperts(scores, config_.token(), /*allow_nan=*/false),
                              weights_.experts());
  }

  at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x,
                          const at::Tensor& tokens) const override {
    std::vector<at::Tensor> branches;
    for (int64_t c = 0; c < x.size(0); ++c) {
      branches.push_back(Clone()->AddFfn(h[c], x[c], tokens[c]));
    }
    return at::stack(branches);
  }

  void Rewind(int64_t position) override {
    if (position < pools_.position()) ended_ = pools_.BeginsDocument(position);
    pools_.Truncate(position);
  }

  std::unique_ptr<IncrementalFfn> Clone() const override {
    return std::make_unique<PooledIncremental>(*this);
  }

 private:
  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
  const int64_t document_end_;
  DocumentPools pools_;
  bool ended_ = false;  // whether the next position begins a document
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
                                                          const FfnWeights& weights,
                                                          std::optional<uint64_t> routing_seed) {
  if (config.routing().token().gate() == v1::TokenRouting::RANDOM && routing_seed.has_value()) {
    return std::make_unique<SeededIncremental>(config.routing(), weights, *routing_seed);
  }
  FfnWeights fixed = weights;
  // Reads a third of the experts' weights, so not at every step.
  if (config.routing().token().gate() == v1::TokenRouting::KEY_MEAN) {
    fixed.router = GateMatrix(weights);
  }
  if (config.routing().token().has_document_pool()) {
    return std::make_unique<PooledIncremental>(config, fixed);
  }
  return std::make_unique<TokenChoiceIncremental>(config.routing(), fixed);
}

}  // namespace braid
