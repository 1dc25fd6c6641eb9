#include "model/merged_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

using ValuesByName = std::map<std::string, std::span<float>>;

ValuesByName ValuesOf(LanguageModel& model) {
  ValuesByName values;
  for (const Parameter& parameter : model.parameters()) values[parameter.name] = parameter.value;
  return values;
}

absl::Status CheckMergingWeights(const v1::ModelConfig& config,
                                 std::span<const std::vector<double>> weights) {
  if (!MergesExperts(config.routing())) {
    return absl::InvalidArgumentError(
        absl::StrCat("merging experts: the router is ", v1::Router_Name(config.routing().router()),
                     ", expected CAUSAL_SEGMENT or PREFIX, which merge experts"));
  }
  const std::vector<int> layers = MoeLayers(config);
  if (weights.size() != layers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("merging: got weights of ", weights.size(),
                                                   " layers, but ", layers.size(),
                                                   " have experts"));
  }
  const auto num_experts = static_cast<size_t>(config.routing().num_experts());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (weights[i].size() == num_experts) continue;
    return absl::InvalidArgumentError(absl::StrCat("merging: layer ", layers[i], ": got ",
                                                   weights[i].size(), " weights, expected ",
                                                   num_experts));
  }
  return absl::OkStatus();
}

void CopyShared(const ValuesByName& from, const ValuesByName& to) {
  for (const auto& [name, value] : to) {
    const auto shared = from.find(name);
    if (shared != from.end()) std::ranges::copy(shared->second, value.begin());
  }
}

void MergeLayer(int layer, std::span<const double> weights, const ValuesByName& from,
                const ValuesByName& to) {
  const std::vector<float> mixture(weights.begin(), weights.end());
  const std::string ffn = LayerPrefix(layer) + "mlp.";
  for (const char* matrix : {"gate_proj.weight", "up_proj.weight", "down_proj.weight_t"}) {
    MergeMatrices(from.at(ffn + "experts." + matrix), mixture, to.at(ffn + matrix));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> MergeExperts(
    LanguageModel& model, std::span<const std::vector<double>> weights) {
  RETURN_IF_ERROR(CheckMergingWeights(model.config(), weights));
  ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> dense,
                   LanguageModel::Create(DenseCounterpart(model.config()), /*seed=*/std::nullopt));
  const ValuesByName from = ValuesOf(model), to = ValuesOf(*dense);
  CopyShared(from, to);
  const std::vector<int> layers = MoeLayers(model.config());
  for (size_t i = 0; i < layers.size(); ++i) MergeLayer(layers[i], weights[i], from, to);
  return dense;
}

void MergeMatrices(std::span<const float> experts, std::span<const float> weights,
                   std::span<float> merged) {
  BRAID_CHECK(experts.size() == weights.size() * merged.size())
      << experts.size() << " " << weights.size() << " " << merged.size();
  std::fill(merged.begin(), merged.end(), 0.0f);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float* const expert = experts.data() + i * merged.size();
    for (size_t j = 0; j < merged.size(); ++j) merged[j] += weights[i] * expert[j];
  }
}

}  // namespace braid
