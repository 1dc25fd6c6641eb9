// A linear layer with low-rank adapters (LoRA, arXiv 2106.09685) on ranges of its outputs:
//   y = x W^T + bias,   y[:, rows p] += scale (m * x) A_p^T B_p^T
// where m is a dropout mask. The products with the adapters go through their rank; without dropout
// and for many tokens, scale B A is added to W instead. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_ADAPTED_LINEAR_H_
#define BRAID_MODEL_KERNELS_ADAPTED_LINEAR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace braid {

// The adapter of the outputs [first_row, first_row + b.size(0)).
struct Adapter {
  int64_t first_row = 0;
  at::Tensor a;  // [rank, in], of experts [E, rank, in]
  at::Tensor b;  // [rows, rank], of experts [E, rows, rank]
};

struct Adapters {
  std::vector<Adapter> parts;  // all of the same rank
  double scale = 1;

  bool empty() const { return parts.empty(); }
};

// Dropout of the adapters' inputs: element j of position t of sequence b is replaced by zero with
// probability `rate`, as a pure function of keys[b], t and j, and divided by 1 - rate otherwise.
struct InputDropout {
  double rate = 0;
  std::vector<uint64_t> keys;  // one per sequence
};

// Returns y [T, out] for x [T, in], W [out, in], and bias [out], [T, out] or undefined. T is a
// multiple of the number of sequences. Differentiable in x, bias and the adapters; in W only
// without adapters. With B of zeros and a contiguous W, y has the same bits as without adapters.
at::Tensor AdaptedLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const Adapters& adapters, const InputDropout& dropout);

// Returns the dense FFN of x [T, D] with adapters of gate and up, and of down (see DenseFfn).
at::Tensor AdaptedFfn(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                      const Adapters& gate_up_adapters, const Adapters& down_adapters,
                      const InputDropout& input_dropout, const InputDropout& hidden_dropout);

// Returns weights [K, E, rows, columns] of experts with scale B A added to those of each part,
// whose index in the first dimension is first_row / rows. Differentiable in the adapters. The sum,
// and in backward its gradient, have the size of the weights. With B of zeros, it has their bits.
at::Tensor AdaptedExperts(const at::Tensor& weights, const Adapters& adapters);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ADAPTED_LINEAR_H_
