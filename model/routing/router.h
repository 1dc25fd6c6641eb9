// The FFN of a layer. The router selects which parameters each position uses (proto Router;
// docs/model.md defines each kind). Tensor code: private to model/.
//
//   const LayerRouters routers(config);
//   RoutedFfn out = routers.Of(layer).AddFfn(h, RmsNorm(h), weights, mode, context);
#ifndef BRAID_MODEL_ROUTING_ROUTER_H_
#define BRAID_MODEL_ROUTING_ROUTER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/routing/incremental_ffn.h"
#include "model/routing/routing_context.h"

namespace braid {

// What AddFfn returns. B sequences, L positions, D width, E experts, k experts of a token.
struct RoutedFfn {
  at::Tensor output;  // [B, L, D]
  // [B, R, E] without gradient: R decisions of TokensPerDecision positions each, rows summing to 1;
  // undefined for DENSE. For expert choice and TOKEN_CHOICE these are the scores (softmax over all
  // experts), whether or not an expert took the position.
  at::Tensor weights;
  // The following are defined by TOKEN_CHOICE only.
  // [B, L, k] int32: the experts that each token uses, ascending, and -1 for absent ones.
  at::Tensor chosen = {};
  // [B]: the balance loss of each sequence without its coefficient, or the penalty of the gate
  // RELU, differentiable; undefined without one or outside training.
  at::Tensor balance_loss = {};
  // A scalar: the loss of a learned rate of dropout; undefined without one or outside training.
  at::Tensor dropout_loss = {};
  // [D] double, without gradient: the sum of x over the positions that count in training; undefined
  // without centered_input.
  at::Tensor input_sum = {};
};

// The FFN of one layer with its routing. Stateless and thread-safe.
class Router {
 public:
  virtual ~Router() = default;

  // Returns h + FFN(x) for whole sequences: residual stream h and FFN input x, both [B, L, D] with
  // any L >= 1. Differentiable in h, x and all weights. Sequences do not influence each other.
  virtual RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& weights,
                           MergeMode mode, const RoutingContext& context) const = 0;

  // Returns the same FFN for one sequence that grows from its start, routed as AddFfn routes in
  // that mode (kTraining means kSegment). `routing_seed` as in RoutingContext.
  virtual std::unique_ptr<IncrementalFfn> Incremental(
      const FfnWeights& weights, MergeMode mode,
      std::optional<uint64_t> routing_seed = {}) const = 0;
};

// Returns the router of a resolved configuration, which must outlive it.
std::unique_ptr<const Router> NewRouter(const v1::ModelConfig& config);

// The routers of all layers of a resolved configuration, which must outlive them.
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
