#include "tests/model/kernels/soft_merge_reference.h"

#include <vector>

namespace braid {

at::Tensor SoftMergeReference(const at::Tensor& x, const at::Tensor& routing,
                              const at::Tensor& gate_up, const at::Tensor& down) {
  std::vector<at::Tensor> segments;
  for (int64_t n = 0; n < x.size(0); ++n) {
    at::Tensor gate = at::zeros_like(gate_up[0][0]), up = at::zeros_like(gate);
    at::Tensor merged_down = at::zeros_like(down[0]);
    for (int64_t e = 0; e < routing.size(1); ++e) {
      gate = gate + routing[n][e] * gate_up[0][e];
      up = up + routing[n][e] * gate_up[1][e];
      merged_down = merged_down + routing[n][e] * down[e];
    }
    const at::Tensor g = at::mm(x[n], gate.t());
    const at::Tensor activation = g * at::sigmoid(g) * at::mm(x[n], up.t());
    segments.push_back(at::mm(activation, merged_down));
  }
  return at::stack(segments);
}

}  // namespace braid
