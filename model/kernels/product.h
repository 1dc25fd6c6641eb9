// Products of activations with weights of any layout, for few tokens as well. Tensor code: private
// to model/.
#ifndef BRAID_MODEL_KERNELS_PRODUCT_H_
#define BRAID_MODEL_KERNELS_PRODUCT_H_

#include <ATen/core/Tensor.h>

namespace braid {

// Return x M and added + x M, [T, N], for x [T, K], M [K, N] and `added` [N] or [T, N].
// Differentiable. Without gradients, up to 8 tokens in single precision on a processor are
// multiplied while M, or the matrix whose transpose it is, is read once: OpenBLAS copies it first,
// which takes several times as long. Bits then do not depend on the number of threads.
at::Tensor Product(const at::Tensor& x, const at::Tensor& matrix);
at::Tensor AddProduct(const at::Tensor& added, const at::Tensor& x, const at::Tensor& matrix);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_PRODUCT_H_
