#include "trainer/model/routing/incremental_ffn.h"

#include <ATen/ATen.h>

#include <vector>

#include "trainer/kernels/soft_merge.h"
#include "trainer/kernels/swiglu.h"
#include "trainer/model/routing/expert_choice.h"
#include "trainer/model/routing/routing_weights.h"
#include "trainer/model/routing/sparse_ffn.h"
#include "trainer/model_config.h"

namespace braid {
namespace {

std::vector<float> HostValues(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kFloat).contiguous();
  const float* const data = host.data_ptr<float>();
  return std::vector<float>(data, data + host.numel());
}

class DenseIncremental final : public IncrementalFfn {
 public:
  DenseIncremental(const at::Tensor& gate_up, const at::Tensor& down)
      : gate_up_(gate_up), down_(down) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x) override {
    return at::addmm(h, SwiGluForward(at::mm(x, gate_up_.t())), down_);
  }

 private:
  const at::Tensor gate_up_, down_;  // [2F, D] and [F, D]
};

class SegmentIncremental final : public IncrementalFfn {
 public:
  SegmentIncremental(const v1::RoutingConfig& config, const FfnWeights& weights, MergeMode mode)
      : config_(config), weights_(weights), mode_(mode) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x) override {
    if (DecisionDue()) Decide(x);
    position_ += x.size(0);
    // A prompt's decision is the last one.
    if (mode_ != MergeMode::kPrompt) ffn_.sum.add_(x.sum(0));
    return at::addmm(h, SwiGluForward(at::mm(x, ffn_.gate_up.t())), ffn_.down);
  }

  ExpertMixture Mixture() const override { return mixture_; }

 private:
  // The FFN in use, and the sum of its inputs, which the next decision is made from.
  struct Ffn {
    at::Tensor gate_up, down;  // [2F, D] and [F, D]
    at::Tensor sum;            // [D]
  };

  bool DecisionDue() const {
    if (position_ == 0) return true;
    if (mode_ == MergeMode::kPrompt) return false;
    if (config_.router() == v1::PREFIX) return position_ == config_.segment_length();
    return position_ % config_.segment_length() == 0;
  }

  at::Tensor Weights(const at::Tensor& x) const {
    const bool first = position_ == 0;
    if (first && mode_ != MergeMode::kPrompt && config_.first_segment() == v1::UNIFORM) {
      return UniformWeights({1, weights_.router.size(0)}, x.options());
    }
    const at::Tensor mean = first ? x.mean(0) : ffn_.sum / config_.segment_length();
    return RoutingWeights(mean.unsqueeze(0), weights_.router, config_);
  }

  void Decide(const at::Tensor& x) {
    const at::Tensor routing = Weights(x), zeros = at::zeros({x.size(1)}, x.options());
    if (MergesExperts(config_)) {
      const MergedFfn merged = MergeExperts(routing, weights_.experts());
      mixture_ = {HostValues(routing), HostValues(routing)};
      ffn_ = {merged.gate_up[0], merged.down[0], zeros};
      return;
    }
    const at::Tensor chosen = BestExperts(routing);
    const int64_t best = chosen[0].nonzero().item<int64_t>();
    mixture_ = {HostValues(chosen), HostValues(chosen * routing)};
    ffn_ = {weights_.gate_up.select(1, best).flatten(0, 1), weights_.down[best] * routing[0][best],
            zeros};
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
  const MergeMode mode_;
  int64_t position_ = 0;
  Ffn ffn_;
  ExpertMixture mixture_;
};

class TokenIncremental final : public IncrementalFfn {
 public:
  TokenIncremental(const v1::RoutingConfig& config, const FfnWeights& weights)
      : config_(config), weights_(weights) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x) override {
    const at::Tensor scores = RoutingWeights(x, weights_.router, config_);
    return h + SparseFfn(x, scores, BestExperts(scores), weights_.experts());
  }

 private:
  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
};

}  // namespace

std::unique_ptr<IncrementalFfn> DenseIncrementalFfn(const FfnWeights& weights) {
  return std::make_unique<DenseIncremental>(weights.gate_up, weights.down);
}

std::unique_ptr<IncrementalFfn> SegmentIncrementalFfn(const v1::RoutingConfig& config,
                                                      const FfnWeights& weights, MergeMode mode) {
  return std::make_unique<SegmentIncremental>(config, weights, mode);
}

std::unique_ptr<IncrementalFfn> TokenIncrementalFfn(const v1::RoutingConfig& config,
                                                    const FfnWeights& weights) {
  return std::make_unique<TokenIncremental>(config, weights);
}

}  // namespace braid
