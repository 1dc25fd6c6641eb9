#include "model/unit_activations.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/kernels/gelu_ffn.h"
#include "model/tensor_guard.h"
#include "model/transformer.h"

namespace braid {
namespace {

absl::Status CheckVisited(const LanguageModel& model, std::span<const int32_t> tokens,
                          int64_t batch_size) {
  const auto size = static_cast<int64_t>(tokens.size());
  const v1::ModelConfig& config = model.config();
  if (model.finetuning().has_lora()) {
    return absl::InvalidArgumentError("the model has adapters, expected merged ones");
  }
  if (batch_size < 1 || size < batch_size || size % batch_size != 0 ||
      size / batch_size > config.sequence_length()) {
    return absl::InvalidArgumentError(absl::StrCat("tokens: got ", size, " in ", batch_size,
                                                   " sequences, expected at most ",
                                                   config.sequence_length(), " in each"));
  }
  const auto known = [&](int32_t id) { return id >= 0 && id < config.vocab_size(); };
  if (std::ranges::all_of(tokens, known)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokens: got one outside of 0 to ", config.vocab_size() - 1));
}

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

bool VisitAll(LanguageModel& model, const at::Tensor& tokens, std::span<const int> layers,
              const std::function<void(const UnitActivations&)>& visit) {
  const at::Tensor values =
      at::from_blob(model.values().data(), {std::ssize(model.values())}, at::kFloat);
  const TransformerWeights weights =
      BindWeights(model.config(), model.finetuning(), values, at::Tensor());
  std::map<int, at::Tensor> inputs;  // x [T, D] by layer
  RoutingContext context;
  context.on_ffn_input = [&](int layer, const at::Tensor& x) {
    if (std::ranges::find(layers, layer) != layers.end()) inputs[layer] = x;
  };
  const HiddenStates states =
      RunTransformer(model.config(), weights, TablesFor(model.config(), values.options()), tokens,
                     MergeMode::kSegment, context);
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
  RETURN_IF_ERROR(CheckVisited(model, tokens, batch_size));
  return WithoutGradients<bool>([&] {
           const at::Tensor ids =
               at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
                   .view({batch_size, -1});
           return VisitAll(model, ids, layers, visit);
         })
      .status();
}

}  // namespace braid
