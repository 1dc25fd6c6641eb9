// The orthogonal factor of matrices, for the optimizer Muon. The tensor library does not appear in
// this header.
#ifndef BRAID_MODEL_KERNELS_ORTHOGONALIZE_H_
#define BRAID_MODEL_KERNELS_ORTHOGONALIZE_H_

#include <cstdint>
#include <span>

namespace braid {

// Replaces each of the matrices [rows, columns], row-major and one after the other, by an
// approximation of U V^T, where U S V^T is its singular value decomposition: five Newton-Schulz
// iterations X <- a X + (b A + c A^2) X, A = X X^T, with a = 3.4445, b = -4.7750, c = 2.0315, from
// the matrix over its Frobenius norm (arXiv 2502.16982, section 2.1). Singular values above 0.003
// of that norm become 0.7 to 1.2. A matrix of zeros stays as it is. A result depends on its matrix
// and the number of threads only. Requires matrices.size() to be a multiple of rows * columns.
void Orthogonalize(std::span<float> matrices, int64_t rows, int64_t columns);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ORTHOGONALIZE_H_
