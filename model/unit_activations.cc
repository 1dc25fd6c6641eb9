#include "model/unit_activations.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "base/status_macros.h"
#include "model/analyzed_tokens.h"
#include "model/kernels/gelu_ffn.h"
#include "model/tensor_guard.h"
#include "model/transformer.h"

namespace braid {
namespace {

template <class T>
std::span<const T> ValuesOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

struct HiddenUnits {
  at::Tensor keys, gate, hidden;  // [T, U]
};

HiddenUnits UnitsOn(const at::Tensor& x, const FfnWeights& ffn) {
  const at::Tensor matrices = ffn.gate_up.reshape({-1, x.size(1)});  // [2 U, D], or [U, D]
  if (ffn.up_bias.defined()) {
    const at::Tensor keys = at::mm(x, matrices.t()), gate = keys + ffn.up_bias.flatten();
    return {keys, gate, Gelu(gate)};
  }
  const int64_t units = matrices.size(0) / 2;
  const at::Tensor gate = at::mm(x, matrices.narrow(0, 0, units).t());
  return {gate, gate, at::silu(gate) * at::mm(x, matrices.narrow(0, units, units).t())};
}

bool VisitAll(LanguageModel& model, std::span<const int32_t> tokens, int64_t batch_size,
              std::span<const int> layers,
              const std::function<void(const UnitActivations&)>& visit) {
  const TransformerWeights weights = WeightsOf(model);
  std::map<int, at::Tensor> inputs;  // x [T, D] by layer
  RoutingContext context;
  context.on_ffn_input = [&](int layer, const at::Tensor& x) {
    if (std::ranges::find(layers, layer) != layers.end()) inputs[layer] = x;
  };
  const HiddenStates states = RunAnalyzed(model, tokens, batch_size, weights, context);
  for (const auto& [layer, x] : inputs) {
    const HiddenUnits units = UnitsOn(x, weights.layers[layer].ffn);
    UnitActivations seen = {.layer = layer,
                            .keys = ValuesOf<float>(units.keys),
                            .gate = ValuesOf<float>(units.gate),
                            .hidden = ValuesOf<float>(units.hidden),
                            .chosen = {}};
    at::Tensor chosen;
    for (const LayerRoutingTensor& routing : states.routing) {
      if (routing.layer == layer && routing.chosen.defined()) chosen = routing.chosen.contiguous();
    }
    if (chosen.defined()) seen.chosen = ValuesOf<int32_t>(chosen);
    visit(seen);
  }
  return true;
}

}  // namespace

absl::Status VisitUnits(LanguageModel& model, std::span<const int32_t> tokens, int64_t batch_size,
                        std::span<const int> layers,
                        const std::function<void(const UnitActivations&)>& visit) {
  RETURN_IF_ERROR(CheckAnalyzed(model, tokens, batch_size));
  return WithoutGradients<bool>([&] { return VisitAll(model, tokens, batch_size, layers, visit); })
      .status();
}

}  // namespace braid
