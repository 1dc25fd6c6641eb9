#include "evaluation/requested_experts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

absl::Status OfModel(const NamedModel& model, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(model.name, ": ", status.message()));
}

bool ChoosesExperts(const NamedModel& model) {
  return model.config.routing().router() == v1::TOKEN_CHOICE;
}

}  // namespace

absl::Status CheckExpertsAreChosen(const google::protobuf::RepeatedField<int32_t>& active_experts,
                                   std::span<const NamedModel> models) {
  if (active_experts.empty() || std::ranges::any_of(models, ChoosesExperts)) {
    return absl::OkStatus();
  }
  return OfModel(models[0],
                 CheckActiveExperts(models[0].config, "active_experts[0]", active_experts[0]));
}

absl::StatusOr<std::vector<int>> RequestedExperts(
    const google::protobuf::RepeatedField<int32_t>& active_experts, const NamedModel& model,
    bool has_routing_seed) {
  std::vector<int> numbers;
  if (!ChoosesExperts(model)) return numbers;
  for (int i = 0; i < active_experts.size(); ++i) {
    const int active = active_experts[i];
    const absl::Status usable = CheckActiveExperts(
        model.config, absl::StrCat("active_experts[", i, "]"), active, has_routing_seed);
    if (!usable.ok()) return OfModel(model, usable);
    if (std::ranges::find(numbers, active) == numbers.end()) numbers.push_back(active);
  }
  return numbers;
}

absl::Status CheckWeightsAreMerged(std::span<const v1::FixedWeights> weights,
                                   std::span<const NamedModel> models) {
  const auto merges = [](const NamedModel& model) { return MergesExperts(model.config.routing()); };
  if (weights.empty() || std::ranges::any_of(models, merges)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(models[0].name, ": fixed_weights: got ", v1::FixedWeights_Name(weights[0]),
                   ", but the router is ", v1::Router_Name(models[0].config.routing().router()),
                   ", expected a model that merges experts (CAUSAL_SEGMENT, PREFIX); leave it "
                   "unset"));
}

}  // namespace braid
