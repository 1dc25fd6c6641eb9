#include "model/layer_outputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/status_macros.h"
#include "model/analyzed_tokens.h"
#include "model/config/layer_mixing_config.h"
#include "model/tensor_guard.h"
#include "model/transformer.h"

namespace braid {

absl::StatusOr<std::vector<float>> MeanLayerOutputs(LanguageModel& model,
                                                    std::span<const int32_t> tokens,
                                                    int64_t batch_size, int64_t first) {
  RETURN_IF_ERROR(CheckAnalyzed(model, tokens, batch_size));
  RETURN_IF_ERROR(CheckMixingInference(model.config()));
  return WithoutGradients<std::vector<float>>([&] {
    const int64_t length = std::ssize(tokens) / batch_size, width = model.config().d_model();
    TORCH_CHECK(first >= 0 && first < length, "first: got ", first, ", expected 0 to ", length - 1);
    std::vector<float> means((model.config().num_layers() + 1) * batch_size * width);
    RoutingContext context;
    context.on_layer_output = [&](int layer, const at::Tensor& h) {
      const at::Tensor mean =
          h.view({batch_size, length, width}).narrow(1, first, length - first).mean(1).contiguous();
      std::copy_n(mean.data_ptr<float>(), mean.numel(), means.begin() + (layer + 1) * mean.numel());
    };
    RunAnalyzed(model, tokens, batch_size, WeightsOf(model), context);
    return means;
  });
}

absl::StatusOr<std::vector<LayerChoiceCounts>> PromptLayerChoices(LanguageModel& model,
                                                                  std::span<const int32_t> tokens) {
  RETURN_IF_ERROR(CheckAnalyzed(model, tokens, 1));
  RETURN_IF_ERROR(CheckMixingInference(model.config()));
  return WithoutGradients<std::vector<LayerChoiceCounts>>([&] {
    // The prompt ends with the first target, which is that of its last token.
    RoutingContext context;
    context.counted = at::zeros({1, std::ssize(tokens)});
    context.counted.narrow(1, std::ssize(tokens) - 1, 1).fill_(1);
    const HiddenStates states = RunAnalyzed(model, tokens, 1, WeightsOf(model), context);
    return CountChoices(states.choices, at::ones({1, std::ssize(tokens)}),
                        model.config().num_layers());
  });
}

}  // namespace braid
