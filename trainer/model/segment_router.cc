#include "trainer/model/segment_router.h"

#include <ATen/ATen.h>

#include <vector>

namespace braid {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;

// [B, D]
at::Tensor FirstMean(const at::Tensor& x, int64_t first_tokens) {
  return x.select(1, 0).narrow(1, 0, first_tokens).mean(1);
}

at::Tensor FirstWeights(const at::Tensor& x, const at::Tensor& router,
                        const v1::RoutingConfig& config, int64_t first_tokens) {
  if (config.first_segment() == v1::UNIFORM) {
    return UniformWeights({x.size(0), router.size(0)}, x.options());
  }
  // Detached before the arithmetic, so that no graph is built.
  return RoutingWeights(FirstMean(x.detach(), first_tokens), router.detach(), config);
}

}  // namespace

at::Tensor RoutingWeights(const at::Tensor& means, const at::Tensor& router,
                          const v1::RoutingConfig& config) {
  at::Tensor input = means;
  if (config.router_input() == v1::NORMALIZED_MEAN) {
    input = at::layer_norm(means, {means.size(-1)}, {}, {}, kLayerNormEpsilon);
  }
  return at::softmax(at::matmul(input, router.t()), -1);
}

at::Tensor UniformWeights(at::IntArrayRef shape, const at::TensorOptions& options) {
  return at::full(shape, 1.0 / static_cast<double>(shape.back()), options);
}

at::Tensor RouteSegments(const at::Tensor& x, const at::Tensor& router,
                         const v1::RoutingConfig& config, int64_t first_tokens) {
  const at::Tensor first = FirstWeights(x, router, config, first_tokens).unsqueeze(1);
  if (x.size(1) == 1) return first;
  const at::Tensor previous = x.narrow(1, 0, x.size(1) - 1).mean(2);
  return at::cat({first, RoutingWeights(previous, router, config)}, 1);
}

at::Tensor RoutePrompts(const at::Tensor& x, const at::Tensor& router,
                        const v1::RoutingConfig& config, int64_t first_tokens) {
  return RoutingWeights(FirstMean(x, first_tokens), router, config);
}

}  // namespace braid
