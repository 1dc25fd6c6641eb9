// Reports when the gradient of a leaf is complete during a backward pass. Tensor code: private to
// model/.
#ifndef BRAID_MODEL_GRADIENT_HOOKS_H_
#define BRAID_MODEL_GRADIENT_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

#include "model/language_model.h"
#include "model/transformer.h"

namespace braid {

// Hooks on the gradient accumulators of all trained weights. Autograd adds to the gradient of a
// leaf once per backward pass, however often the leaf is used, and runs the hook after that, in the
// thread that called backward() (on CPU). A leaf that the pass does not reach triggers no call.
class GradientHooks {
 public:
  // Requires that the gradients of all leaves are views of the flat array `gradients`.
  GradientHooks(const TransformerWeights& weights, const at::Tensor& gradients);

  // Routes calls to `ready` during the lifetime of the scope. An empty function receives none.
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

  // Shared with the hooks, which are owned by autograd.
  std::shared_ptr<const GradientsReady*> target_ = std::make_shared<const GradientsReady*>();
  // Keeps the accumulator nodes alive: a leaf refers to its own node only weakly.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
};

}  // namespace braid

#endif  // BRAID_MODEL_GRADIENT_HOOKS_H_
