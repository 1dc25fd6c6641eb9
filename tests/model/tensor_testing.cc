#include "tests/model/tensor_testing.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace braid {

at::Tensor RandomLeaf(at::IntArrayRef shape, double std) {
  return at::randn(shape, at::kDouble).mul_(std).set_requires_grad(true);
}

std::vector<at::Tensor> GradientsOf(const std::function<at::Tensor()>& f,
                                    const std::vector<at::Tensor>& leaves) {
  for (const at::Tensor& leaf : leaves) leaf.mutable_grad() = at::zeros_like(leaf).detach();
  f().backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad().clone());
  return gradients;
}

double MaxDifference(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), a.sizes(), " against ", b.sizes());
  return (a.detach() - b.detach()).abs().max().item<double>();
}

double FiniteDifferenceError(const std::function<at::Tensor()>& f,
                             const std::vector<at::Tensor>& leaves, int samples) {
  constexpr double kStep = 1e-5;
  const std::vector<at::Tensor> gradients = GradientsOf(f, leaves);
  std::mt19937 random(7);
  double worst = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    double* const data = leaves[i].data_ptr<double>();
    for (int sample = 0; sample < samples; ++sample) {
      const int64_t at = static_cast<int64_t>(random() % leaves[i].numel());
      const double original = data[at];
      data[at] = original + kStep;
      const double above = f().item<double>();
      data[at] = original - kStep;
      const double below = f().item<double>();
      data[at] = original;
      const double expected = (above - below) / (2 * kStep);
      const double error = std::abs(gradients[i].flatten()[at].item<double>() - expected);
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace braid
