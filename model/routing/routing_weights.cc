#include "model/routing/routing_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace braid {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;

// [B, D]
at::Tensor FirstMean(const at::Tensor& x, const v1::RoutingConfig& config) {
  return x.narrow(1, 0, std::min<int64_t>(config.segment_length(), x.size(1))).mean(1);
}

}  // namespace

at::Tensor RouterScores(const at::Tensor& means, const at::Tensor& router,
                        const v1::RoutingConfig& config) {
  at::Tensor input = means;
  if (config.router_input() == v1::NORMALIZED_MEAN) {
    input = at::layer_norm(means, {means.size(-1)}, {}, {}, kLayerNormEpsilon);
  }
  return at::matmul(input, router.t());
}

at::Tensor RoutingWeights(const at::Tensor& means, const at::Tensor& router,
                          const v1::RoutingConfig& config) {
  return at::softmax(RouterScores(means, router, config), -1);
}

at::Tensor UniformWeights(at::IntArrayRef shape, const at::TensorOptions& options) {
  return at::full(shape, 1.0 / static_cast<double>(shape.back()), options);
}

int64_t NumSegments(int64_t length, const v1::RoutingConfig& config) {
  return (length + config.segment_length() - 1) / config.segment_length();
}

at::Tensor FirstSegmentWeights(const at::Tensor& own, const v1::RoutingConfig& config) {
  if (config.first_segment() == v1::UNIFORM) return UniformWeights(own.sizes(), own.options());
  return own.detach();
}

at::Tensor SegmentWeights(const at::Tensor& x, const at::Tensor& router,
                          const v1::RoutingConfig& config) {
  const int64_t followed = NumSegments(x.size(1), config) - 1, s = config.segment_length();
  if (followed == 0) {
    return FirstSegmentWeights(PrefixWeights(x, router, config), config).unsqueeze(1);
  }
  // Only the last segment may be partial, and no segment routes on the last, so every mean is taken
  // over S positions. Segment n > 0 routes on segment n-1; routing on itself would leak future
  // tokens of the segment into its own predictions. Segment 0 has no predecessor and sees its own
  // mean, but without gradient: the router cannot learn to exploit that leak.
  const at::Tensor means =
      x.narrow(1, 0, followed * s).reshape({x.size(0), followed, s, x.size(2)}).mean(2);
  const at::Tensor later = RoutingWeights(means, router, config);
  return at::cat({FirstSegmentWeights(later.narrow(1, 0, 1), config), later}, 1);
}

at::Tensor PrefixWeights(const at::Tensor& x, const at::Tensor& router,
                         const v1::RoutingConfig& config) {
  return RoutingWeights(FirstMean(x, config), router, config);
}

}  // namespace braid
