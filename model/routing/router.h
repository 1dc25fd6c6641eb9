// The FFN of a layer behind one interface: which parameters a position uses is
// the router's choice (proto Router; docs/model.md defines each). Tensor code:
// private to trainer/model.
//
//   const LayerRouters routers(config);
//   RoutedFfn out = routers.Of(layer).AddFfn(h, RmsNorm(h), weights, mode);
#ifndef BRAID_MODEL_ROUTING_ROUTER_H_
#define BRAID_MODEL_ROUTING_ROUTER_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/routing/incremental_ffn.h"

namespace braid {

struct RoutedFfn {
  at::Tensor output;  // [B, L, D]
  // [B, R, E] without gradient, R decisions of TokensPerDecision positions, each
  // row summing to 1; undefined for DENSE. For expert choice these are the
  // scores, whether an expert took the position or not.
  at::Tensor weights;
};

class Router {
 public:
  virtual ~Router() = default;

  // h + FFN(x) for whole sequences: residual stream h and FFN input x, both
  // [B, L, D] with any L >= 1. Differentiable in everything. No sequence has an
  // influence on another one.
  virtual RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& weights,
                           MergeMode mode) const = 0;

  // The same FFN for one sequence that grows from its start, routed as AddFfn
  // does in that mode (kTraining means kSegment).
  virtual std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights,
                                                      MergeMode mode) const = 0;
};

// `config` must outlive the router.
std::unique_ptr<const Router> NewRouter(const v1::RoutingConfig& config);

// The routers of a resolved configuration, which must outlive them.
class LayerRouters {
 public:
  explicit LayerRouters(const v1::ModelConfig& config);

  const Router& Of(int layer) const;

 private:
  const v1::ModelConfig& config_;
  std::unique_ptr<const Router> dense_, experts_;
};

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_ROUTER_H_
