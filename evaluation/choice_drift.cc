#include "evaluation/choice_drift.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/heldout_windows.h"
#include "formats/packed_dataset.h"
#include "model/config/model_config.h"
#include "model/unit_activations.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"
#include "trainer/checkpoint_weights.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// The sets of experts of all tokens, as hashes, by layer.
using ChoicesByLayer = std::map<int, std::vector<uint64_t>>;

uint64_t HashOfChoice(std::vector<int32_t> chosen) {
  std::ranges::sort(chosen);
  uint64_t hash = 0;
  for (const int32_t expert : chosen) hash = Mix64(hash, static_cast<uint64_t>(expert));
  return hash;
}

absl::Status AddWindow(LanguageModel& model, const Batch& batch,
                       const ExpertActivityOptions& options, const std::vector<int>& layers,
                       ChoicesByLayer* choices) {
  return VisitUnits(model, batch.inputs, 1, layers, [&](const UnitActivations& seen) {
    const std::vector<int32_t>& expert_of = options.expert_of.at(seen.layer);
    const size_t units = expert_of.size(), k = seen.chosen.size() / batch.inputs.size();
    for (int64_t t = 0; t < batch.lengths[0]; ++t) {
      (*choices)[seen.layer].push_back(HashOfChoice(
          ChosenExperts(seen.keys.subspan(t * units, units), seen.chosen.subspan(t * k, k),
                        expert_of, options.num_experts, options.active_experts)));
    }
  });
}

absl::StatusOr<ChoicesByLayer> ReadChoices(LanguageModel& model, const fs::path& dataset_dir,
                                           const ExpertActivityOptions& options) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  ASSIGN_OR_RETURN(const std::vector<HeldoutDomain> domains,
                   OpenDomains(dataset_dir, info, options.max_windows_per_domain));
  std::vector<int> layers;
  for (const auto& [layer, expert_of] : options.expert_of) layers.push_back(layer);
  ChoicesByLayer choices;
  for (const HeldoutDomain& domain : domains) {
    for (int64_t window = 0; window < domain.num_windows; ++window) {
      ASSIGN_OR_RETURN(const Batch batch, domain.windows.Load(std::span(&window, 1)));
      RETURN_IF_ERROR(AddWindow(model, batch, options, layers, &choices));
    }
  }
  return choices;
}

// Returns whether both models choose among the same experts.
bool AreComparable(v1::ModelConfig a, v1::ModelConfig b) {
  for (v1::ModelConfig* config : {&a, &b}) {
    if (config->routing().has_token()) {
      config->mutable_routing()->mutable_token()->clear_active_experts();
    }
  }
  return a.SerializeAsString() == b.SerializeAsString();
}

using EarlierModel = absl::StatusOr<std::unique_ptr<LanguageModel>>;

// Loads an older checkpoint of the run of `newest`; null when their choices cannot be compared.
EarlierModel LoadComparable(const fs::path& checkpoint, const ModelPath& newest) {
  ASSIGN_OR_RETURN(const ModelPath older, FindModel(checkpoint, /*strict=*/false));
  const bool average = newest.state.use_average;
  if (!AreComparable(older.state.model, newest.state.model) ||
      (average && !older.state.has_average)) {
    return nullptr;
  }
  return LoadModel(checkpoint, average);
}

// Loads the weights that the run of `newest` started from into a model that uses its experts as
// `newest` does; null when they do not hold all parameters of that model.
EarlierModel LoadStart(const fs::path& start, const ModelPath& newest) {
  RETURN_IF_ERROR(VerifyCheckpoint(start));
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(start));
  if (UsesExperts(state.model) != UsesExperts(newest.state.model)) return nullptr;
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(newest.state.model, /*seed=*/std::nullopt));
  const std::vector<CheckpointTensor> tensors = BaseTensors(*model);
  if (HeldBy(state.model, tensors).size() < tensors.size()) return nullptr;
  RETURN_IF_ERROR(ReadMergedWeights(start, state, tensors));
  return model;
}

// Sets the experts of an earlier model, which may have been trained with another number of them.
absl::Status SetMeasuredExperts(const ExpertActivityOptions& options, LanguageModel* model) {
  if (!UsesExperts(model->config())) return absl::OkStatus();
  if (options.routing_seed.has_value() &&
      CheckRoutingSeed(model->config(), *options.routing_seed).ok()) {
    RETURN_IF_ERROR(model->SetRoutingSeed(*options.routing_seed));
  }
  return model->SetActiveExperts(options.active_experts);
}

void AddDrift(const ChoicesByLayer& before, int64_t from, const ChoicesByLayer& after, int64_t to,
              std::vector<v1::ChoiceDrift>* drift) {
  for (const auto& [layer, choices] : after) {
    const std::vector<uint64_t>& others = before.at(layer);
    int64_t changed = 0;
    for (size_t i = 0; i < choices.size(); ++i) changed += choices[i] != others[i];
    v1::ChoiceDrift& entry = drift->emplace_back();
    entry.set_layer(layer);
    entry.set_from_step(from);
    entry.set_to_step(to);
    entry.set_changed_share(static_cast<double>(changed) / static_cast<double>(choices.size()));
  }
}

}  // namespace

absl::StatusOr<std::vector<v1::ChoiceDrift>> MeasureChoiceDrift(
    const fs::path& run, const ModelPath& newest, LanguageModel& model, const fs::path& dataset_dir,
    const ExpertActivityOptions& options, std::vector<std::string>* skipped) {
  // Returns nullopt for a model that is left out.
  const auto earlier = [&](const std::string& name, const fs::path& checkpoint,
                           auto load) -> absl::StatusOr<std::optional<ChoicesByLayer>> {
    const EarlierModel older = load(checkpoint, newest);
    std::error_code error;
    if (!older.ok() && !fs::exists(checkpoint, error)) return std::nullopt;  // removed since
    const bool damaged = IsCheckpointDamage(older.status());
    // A start that holds adapters alone lacks its base where that was removed.
    if (damaged || absl::IsFailedPrecondition(older.status())) {
      skipped->push_back(absl::StrCat("choices of ", name, " were not compared: checkpoint ",
                                      checkpoint.string(), damaged ? " is damaged: " : ": ",
                                      older.status().message()));
      return std::nullopt;
    }
    RETURN_IF_ERROR(older.status());
    if (*older == nullptr) return std::nullopt;
    RETURN_IF_ERROR(SetMeasuredExperts(options, older->get()));
    return ReadChoices(**older, dataset_dir, options);
  };
  const RunDirectory directory(run);
  ASSIGN_OR_RETURN(const v1::RunSpec spec, directory.ReadSpec());
  std::optional<ChoicesByLayer> start, before;
  if (!spec.init_from().empty()) {
    ASSIGN_OR_RETURN(start, earlier("the start", spec.init_from(), LoadStart));
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> steps, CheckpointSteps(directory.checkpoints()));
  std::ranges::sort(steps);
  std::vector<v1::ChoiceDrift> drift;
  int64_t step_before = 0;
  const int64_t last = newest.source.step();
  for (const int64_t step : steps) {
    if (step >= last) break;
    ASSIGN_OR_RETURN(std::optional<ChoicesByLayer> choices,
                     earlier(absl::StrCat("step ", step),
                             CheckpointPath(directory.checkpoints(), step), LoadComparable));
    if (!choices.has_value()) continue;
    if (before.has_value()) AddDrift(*before, step_before, *choices, step, &drift);
    before = std::move(choices);
    step_before = step;
  }
  if (!start.has_value() && !before.has_value()) return drift;
  ASSIGN_OR_RETURN(const ChoicesByLayer choices, ReadChoices(model, dataset_dir, options));
  if (before.has_value()) AddDrift(*before, step_before, choices, last, &drift);
  if (start.has_value()) AddDrift(*start, 0, choices, last, &drift);
  return drift;
}

}  // namespace braid
