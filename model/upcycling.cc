#include "model/upcycling.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

// Returns the configuration without the fields that upcycling may change.
std::string SharedShape(const v1::ModelConfig& config) {
  v1::ModelConfig shared = DenseCounterpart(config);
  shared.clear_preset();
  shared.clear_routing();
  return shared.ShortDebugString();
}

absl::Status CheckUpcyclable(const v1::ModelConfig& dense, const v1::ModelConfig& moe) {
  if (UsesExperts(dense))
    return absl::InvalidArgumentError(
        "upcycling: the source model has experts, expected a dense model");
  if (!UsesExperts(moe))
    return absl::InvalidArgumentError(
        "upcycling: the target model is dense, expected one with experts");
  if (SharedShape(dense) == SharedShape(moe)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("upcycling: the models differ in more than routing: got {", SharedShape(moe),
                   "}, expected {", SharedShape(dense), "}"));
}

}  // namespace

std::string DenseName(const std::string& name) {
  constexpr char kExperts[] = ".experts.";
  const size_t at = name.find(kExperts);
  if (at == name.npos) return name;
  return name.substr(0, at) + "." + name.substr(at + sizeof(kExperts) - 1);
}

std::vector<ParameterOrigin> UpcycledOrigins(LanguageModel& dense, LanguageModel& moe) {
  std::unordered_map<std::string, int64_t> index;
  for (const Parameter& parameter : dense.parameters()) {
    index.emplace(parameter.name, static_cast<int64_t>(index.size()));
  }
  std::vector<ParameterOrigin> origins;
  for (const Parameter& parameter : moe.parameters()) {
    const auto found = index.find(DenseName(parameter.name));
    if (found == index.end()) {
      origins.push_back({});
      continue;
    }
    const size_t size = dense.parameters()[found->second].value.size();
    BRAID_CHECK(parameter.value.size() % size == 0) << parameter.name;
    origins.push_back({found->second, static_cast<int>(parameter.value.size() / size)});
  }
  return origins;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Upcycle(LanguageModel& dense,
                                                       const v1::ModelConfig& moe, uint64_t seed) {
  RETURN_IF_ERROR(CheckUpcyclable(dense.config(), moe));
  ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                   LanguageModel::Create(moe, seed, dense.finetuning()));
  const std::vector<ParameterOrigin> origins = UpcycledOrigins(dense, *model);
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i].dense_parameter < 0) continue;
    const std::span<const float> source = dense.parameters()[origins[i].dense_parameter].value;
    float* out = model->parameters()[i].value.data();
    for (int copy = 0; copy < origins[i].copies; ++copy) {
      out = std::copy(source.begin(), source.end(), out);
    }
  }
  return model;
}

}  // namespace braid
