// Tells when the gradient of a leaf is complete in a backward pass. Tensor code:
// private to trainer/model.
#ifndef BRAID_MODEL_GRADIENT_HOOKS_H_
#define BRAID_MODEL_GRADIENT_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

#include "model/language_model.h"
#include "model/transformer.h"

namespace braid {

// Autograd adds to a leaf's gradient once a backward pass, however often the leaf is
// used, and runs the hook after that, in the thread that called backward() (on CPU).
// A leaf that the pass does not reach has no call.
class GradientHooks {
 public:
  // The leaves' gradients are views of the flat array `gradients`.
  GradientHooks(const TransformerWeights& weights, const at::Tensor& gradients);

  // Calls go to `ready` during the life of the result; to nobody when it is empty.
  class Scope {
   public:
    Scope(GradientHooks* hooks, const GradientsReady& ready) : hooks_(hooks) {
      *hooks_->target_ = ready ? &ready : nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { *hooks_->target_ = nullptr; }

   private:
    GradientHooks* hooks_;
  };

 private:
  void Watch(const at::Tensor& leaf, const at::Tensor& gradients);

  // Shared with the hooks, which autograd owns.
  std::shared_ptr<const GradientsReady*> target_ = std::make_shared<const GradientsReady*>();
  // A leaf itself refers only weakly to the node that adds to its gradient.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
};

}  // namespace braid

#endif  // BRAID_MODEL_GRADIENT_HOOKS_H_
