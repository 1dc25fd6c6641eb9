// Random double tensors, gradients and comparisons for kernel tests.
#ifndef BRAID_TESTS_MODEL_TENSOR_TESTING_H_
#define BRAID_TESTS_MODEL_TENSOR_TESTING_H_

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace braid {

// Returns standard normal doubles that require a gradient.
at::Tensor RandomLeaf(at::IntArrayRef shape, double std = 1);

// Returns the gradients of f() with respect to each leaf, after clearing earlier ones.
std::vector<at::Tensor> GradientsOf(const std::function<at::Tensor()>& f,
                                    const std::vector<at::Tensor>& leaves);

// Returns the largest absolute difference of two tensors of the same shape.
double MaxDifference(const at::Tensor& a, const at::Tensor& b);

// Returns the largest difference between the gradients of the scalar f() and central finite
// differences at `samples` random elements of every leaf.
double FiniteDifferenceError(const std::function<at::Tensor()>& f,
                             const std::vector<at::Tensor>& leaves, int samples);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_TENSOR_TESTING_H_
