#include "model/routing/expert_choice.h"

#include <ATen/ATen.h>

namespace braid {
namespace {

// Selects the `count` greatest entries along `dim`. topk leaves the order of ties unspecified; a
// stable sort does not.
at::Tensor Greatest(const at::Tensor& scores, int64_t count, int64_t dim) {
  const at::Tensor order =
      std::get<1>(at::sort(scores.detach(), /*stable=*/true, dim, /*descending=*/true));
  return at::zeros_like(order, at::kBool).scatter_(dim, order.narrow(dim, 0, count), true);
}

}  // namespace

at::Tensor ExpertChoice(const at::Tensor& scores, int64_t capacity) {
  return Greatest(scores, capacity, 1);
}

at::Tensor BestExperts(const at::Tensor& scores) { return Greatest(scores, 1, scores.dim() - 1); }

}  // namespace braid
