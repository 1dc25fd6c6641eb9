// Dropout of the hidden units of an FFN for tensors: what the kernels take, and the same factors as
// a tensor for plain operations. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_FFN_DROPOUT_H_
#define BRAID_MODEL_KERNELS_FFN_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/kernels/unit_dropout.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace braid {

struct FfnDropout {
  UnitDropout::Kind kind = UnitDropout::kNone;
  double rate = 0;  // unused by kConcrete
  int64_t block = 1;
  int64_t span = 0;  // hidden units that a block stays within
  at::Tensor keys;   // [2, T] int32 on the CPU: low and high halves of each token's key
  at::Tensor logit;  // [1], kConcrete only: the logit of the rate

  bool drops() const { return kind != UnitDropout::kNone; }
  // Returns whether the logit has a gradient, which the hidden values are kept for.
  bool LearnsRate() const;
  // Returns what the kernels take. The result points into `keys`.
  UnitDropout ForKernel() const;
  // Returns the logit as an argument of an autograd function, which accepts no undefined tensor.
  at::Tensor LogitArgument(const at::TensorOptions& options) const;
};

// Returns the factors of hidden values [T, units] in a floating type; differentiable in the logit.
// Requires dropout.drops().
at::Tensor DropoutFactors(const FfnDropout& dropout, int64_t units,
                          const at::TensorOptions& options);

// Stores dropout for the backward pass of an autograd function, and returns it there.
void SaveDropout(const FfnDropout& dropout, torch::autograd::AutogradContext* context);
FfnDropout SavedDropout(torch::autograd::AutogradContext* context);

// Returns the gradient [1] that an autograd function reports for its LogitArgument.
at::Tensor LogitGradient(const FfnDropout& dropout, double gradient);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FFN_DROPOUT_H_
