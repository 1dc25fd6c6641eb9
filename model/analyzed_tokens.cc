#include "model/analyzed_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace braid {

absl::Status CheckAnalyzed(const LanguageModel& model, std::span<const int32_t> tokens,
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

TransformerWeights WeightsOf(LanguageModel& model) {
  const at::Tensor values =
      at::from_blob(model.values().data(), {std::ssize(model.values())}, at::kFloat);
  return BindWeights(model.config(), model.finetuning(), values, at::Tensor());
}

HiddenStates RunAnalyzed(LanguageModel& model, std::span<const int32_t> tokens, int64_t batch_size,
                         const TransformerWeights& weights, RoutingContext context) {
  const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
                             .view({batch_size, -1});
  const v1::ModelConfig config = model.InferenceConfig();
  context.routing_seed = model.routing_seed();
  return RunTransformer(config, weights, TablesFor(config, weights.embedding.options()), ids,
                        MergeMode::kSegment, std::move(context));
}

}  // namespace braid
