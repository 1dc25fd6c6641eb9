#include "inference/huggingface/baked_weights.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/merged_model.h"

namespace braid {
namespace {

// Returns the name of the expert parameter: "model.layers.3.mlp.gate_proj.weight" ->
// "model.layers.3.mlp.experts.gate_proj.weight".
std::string ExpertsName(const std::string& dense_name, const std::string& ffn_prefix) {
  return absl::StrCat(ffn_prefix, "experts.", dense_name.substr(ffn_prefix.size()));
}

}  // namespace

absl::StatusOr<BakedWeights> BakedWeights::Create(LanguageModel& model,
                                                  std::span<const int32_t> prompt) {
  if (!UsesExperts(model.config())) {
    return absl::InvalidArgumentError(
        "bake_prompt: got a prompt, but the router is DENSE, expected a model with experts, which "
        "the prompt merges; export without --bake");
  }
  const std::unique_ptr<Decoder> decoder = model.NewDecoder(MergeMode::kPrompt);
  RETURN_IF_ERROR(decoder->Prefill(prompt).status());
  BakedWeights baked(model, decoder->Mixtures());
  for (const ParameterSpec& spec : ParameterLayout(baked.config_)) {
    if (baked.Find(spec.name) != nullptr || baked.Values(spec.name).ok()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(v1::Router_Name(model.config().routing().router()),
                     " routing does not produce a single dense model for a prompt (", spec.name,
                     " has no merged value); export without --bake"));
  }
  return baked;
}

BakedWeights::BakedWeights(LanguageModel& model, std::vector<ExpertMixture> mixtures)
    : model_(&model), config_(DenseCounterpart(model.config())), mixtures_(std::move(mixtures)) {}

const Parameter* BakedWeights::Find(const std::string& name) const {
  const std::span<Parameter> parameters = model_->parameters();
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

absl::StatusOr<std::span<const float>> BakedWeights::Values(const std::string& name) {
  if (const Parameter* shared = Find(name)) return shared->value;
  for (size_t layer = 0; layer < mixtures_.size(); ++layer) {
    const std::string prefix = LayerPrefix(static_cast<int>(layer)) + "mlp.";
    if (!name.starts_with(prefix)) continue;
    const bool down = name.starts_with(prefix + "down_proj");
    const std::vector<float>& mixture = down ? mixtures_[layer].down : mixtures_[layer].gate_up;
    const Parameter* experts = Find(ExpertsName(name, prefix));
    if (experts == nullptr || mixture.empty()) break;
    merged_.resize(experts->value.size() / mixture.size());
    MergeMatrices(experts->value, mixture, merged_);
    return merged_;
  }
  return absl::NotFoundError(absl::StrCat("no parameter ", name));
}

}  // namespace braid
