#include "model/routing/router.h"

#include <ATen/ATen.h>

#include "base/check.h"
#include "model/config/model_config.h"
#include "model/kernels/dense_ffn.h"
#include "model/kernels/gelu_ffn.h"
#include "model/routing/expert_choice_routers.h"
#include "model/routing/merging_routers.h"
#include "model/routing/token_choice_router.h"
#include "model/routing/training_dropout.h"

namespace braid {
namespace {

class DenseRouter final : public Router {
 public:
  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode,
                   const RoutingContext& context) const override {
    const int64_t units = w.down.size(0);
    const FfnDropout dropout = DropoutOf(context, w, x.size(0), x.size(1), units);
    const at::Tensor rows = x.reshape({-1, x.size(2)});
    const at::Tensor y = w.up_bias.defined()
                             ? GeluFfn(rows, {w.gate_up, w.up_bias, w.down, w.down_bias}, dropout)
                             : DenseFfn(rows, w.gate_up, w.down, dropout);
    RoutedFfn result = {h + y.view(h.sizes()), {}};
    if (dropout.drops()) result.dropout_loss = ConcreteLoss(w, units);
    return result;
  }

  std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights, MergeMode,
                                              std::optional<uint64_t>) const override {
    return DenseIncrementalFfn(weights);
  }
};

}  // namespace

std::unique_ptr<const Router> NewRouter(const v1::ModelConfig& config) {
  switch (config.routing().router()) {
    case v1::DENSE:
      return std::make_unique<DenseRouter>();
    case v1::CAUSAL_SEGMENT:
      return NewCausalSegmentRouter(config);
    case v1::PREFIX:
      return NewPrefixRouter(config);
    case v1::EXPERT_CHOICE_SEGMENT:
      return NewSegmentChoiceRouter(config);
    case v1::EXPERT_CHOICE_TOKEN:
      return NewExpertChoiceTokenRouter(config.routing());
    case v1::TOKEN_CHOICE:
      return NewTokenChoiceRouter(config);
    default:
      BRAID_CHECK(false) << "router " << config.routing().router()
                         << " of a resolved configuration";
      return nullptr;
  }
}

LayerRouters::LayerRouters(const v1::ModelConfig& config)
    : config_(config), dense_(std::make_unique<DenseRouter>()), experts_(NewRouter(config)) {}

const Router& LayerRouters::Of(int layer) const {
  return IsMoeLayer(config_, layer) ? *experts_ : *dense_;
}

}  // namespace braid
