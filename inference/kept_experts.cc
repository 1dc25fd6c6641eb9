#include "inference/kept_experts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/packed_dataset.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/upcycling.h"
#include "runs/checkpoint.h"
#include "trainer/data_loader.h"
#include "trainer/routing_totals.h"
#include "trainer/supervised_targets.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWindowsAtOnce = 4;

absl::Status CheckText(const v1::ModelConfig& model, const fs::path& checkpoint,
                       const fs::path& dataset_dir, const DatasetInfo& info) {
  ASSIGN_OR_RETURN(const FileSummary ours, SummarizeFile(checkpoint / kTokenizerFile));
  ASSIGN_OR_RETURN(const FileSummary theirs, SummarizeFile(dataset_dir / kTokenizerFile));
  if (ours.bytes != theirs.bytes || ours.crc32c != theirs.crc32c) {
    return absl::FailedPreconditionError(
        absl::StrCat(dataset_dir.string(), " was packed with another tokenizer than that of ",
                     checkpoint.string(), "; pack the text with the model's tokenizer"));
  }
  if (info.sequence_length <= model.sequence_length()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(dataset_dir.string(), " has windows of ", info.sequence_length,
                   " tokens, expected at most sequence_length ", model.sequence_length()));
}

absl::Status CheckKeepable(const v1::RoutingConfig& routing) {
  if (routing.router() != v1::TOKEN_CHOICE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keep: the router is ", v1::Router_Name(routing.router()), ", expected TOKEN_CHOICE"));
  }
  const v1::TokenRouting::Gate gate = routing.token().gate();
  if (gate == v1::TokenRouting::RANDOM || gate == v1::TokenRouting::HASH) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep: the gate is ", v1::TokenRouting::Gate_Name(gate),
                     ", whose choice depends on the number of experts; expected a gate that "
                     "scores each expert, such as LINEAR"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumKept(int num_kept, int num_experts) {
  if (num_kept >= 2 && num_kept <= num_experts) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "keep.num_experts: got ", num_kept, ", expected 2 to ", num_experts,
      ", the number of experts of the model",
      num_kept == 1 ? "; one expert alone is a dense FFN, which --dense makes of it" : ""));
}

// Returns the most used experts, ascending.
std::vector<int32_t> MostUsed(const std::vector<double>& counts, int num_kept) {
  std::vector<int32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t e) { return counts[e]; });
  order.resize(num_kept);
  std::ranges::sort(order);
  return order;
}

absl::StatusOr<v1::ModelConfig> KeptConfig(v1::ModelConfig config, int num_kept) {
  v1::RoutingConfig* routing = config.mutable_routing();
  v1::TokenRouting* token = routing->mutable_token();
  const bool slices = token->expert_d_ff() * routing->num_experts() == config.d_ff();
  const bool everywhere = routing->moe_layers().empty();
  config.clear_preset();
  // The units of all experts are then those of one FFN again, unless dense layers need the width.
  if (slices && everywhere) config.set_d_ff(token->expert_d_ff() * num_kept);
  routing->set_num_experts(num_kept);
  token->set_active_experts(std::min(token->active_experts(), num_kept));
  if (token->has_document_pool()) {
    token->set_document_pool(std::min(token->document_pool(), num_kept));
  }
  return ResolveModelConfig(config);
}

// Returns the model whose FFNs are one expert each.
absl::StatusOr<v1::ModelConfig> SingleExpertConfig(const v1::ModelConfig& config) {
  const v1::RoutingConfig& routing = config.routing();
  // All other weights of a single expert are 1: they are normalized, or 1 for each.
  if (routing.token().combine_weights() == v1::TokenRouting::SCORES) {
    return absl::InvalidArgumentError(
        "keep: got one expert with combine weights SCORES, which is not a dense FFN, since its "
        "output is multiplied by its score; expected at least 2");
  }
  if (!routing.moe_layers().empty() && ExpertWidth(config) != config.d_ff()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keep: got one expert of ", ExpertWidth(config), " hidden units beside dense layers of ",
        config.d_ff(), "; expected experts in all layers, since a dense model has one d_ff"));
  }
  v1::ModelConfig dense = DenseCounterpart(config);
  dense.clear_preset();
  dense.set_d_ff(static_cast<int32_t>(ExpertWidth(config)));
  return dense;
}

// The experts that are kept, ascending, by the beginning of the names of a layer's FFN parameters.
using KeptByPrefix = std::map<std::string, std::vector<int32_t>>;

// Returns the most used experts of each layer, and records them.
KeptByPrefix ChooseKept(const ExpertUse& use, int num_kept, v1::Conversion* record) {
  KeptByPrefix kept;
  for (const auto& [layer, counts] : use) {
    const std::vector<int32_t> experts = MostUsed(counts, num_kept);
    kept[absl::StrCat(LayerPrefix(layer), "mlp.")] = experts;
    v1::LayerUnits* units = record->add_layers();
    units->set_layer(layer);
    units->mutable_experts()->Assign(experts.begin(), experts.end());
  }
  return kept;
}

// Copies the parameters that `to` has, too, with the experts in `kept` one after the other.
void CopyKept(LanguageModel& from, const KeptByPrefix& kept, LanguageModel& to) {
  std::map<std::string, std::span<float>> targets;
  for (const Parameter& parameter : to.parameters()) {
    targets[DenseName(parameter.name)] = parameter.value;
  }
  const auto num_experts = static_cast<size_t>(from.config().routing().num_experts());
  for (const Parameter& parameter : from.parameters()) {
    const auto target = targets.find(DenseName(parameter.name));
    if (target == targets.end()) continue;  // the router, when one expert is left
    if (parameter.value.size() == target->second.size()) {
      std::ranges::copy(parameter.value, target->second.begin());
      continue;
    }
    // The experts of every parameter that has become smaller come one after the other.
    const std::string prefix = parameter.name.substr(0, parameter.name.find("mlp.") + 4);
    const size_t row = parameter.value.size() / num_experts;
    auto out = target->second.begin();
    for (const int32_t expert : kept.at(prefix)) {
      const auto source = parameter.value.subspan(static_cast<size_t>(expert) * row, row);
      out = std::ranges::copy(source, out).out;
    }
  }
}

}  // namespace

absl::StatusOr<ExpertUse> CountExpertUse(LanguageModel& model, const fs::path& checkpoint,
                                         const fs::path& dataset_dir, int64_t max_windows) {
  // Without counts, the first experts would seem to be the most used.
  if (max_windows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep.max_windows: got ", max_windows, ", expected at least 1"));
  }
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  RETURN_IF_ERROR(CheckText(model.config(), checkpoint, dataset_dir, info));
  ASSIGN_OR_RETURN(const DataLoader windows, DataLoader::Open(dataset_dir / "instances", info));
  std::optional<SupervisedTargets> targets;
  if (info.supervised) {
    const bool alone = RoutesOnOtherTokens(model.config().routing());
    ASSIGN_OR_RETURN(targets, SupervisedTargets::Open(dataset_dir / kSpansName, windows, alone));
  }
  const int64_t count = std::min(windows.num_instances(), max_windows);
  if (count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(dataset_dir.string(), ": has no instances, so no expert is used"));
  }
  const int num_experts = model.config().routing().num_experts();
  ExpertUse use;
  for (const int layer : MoeLayers(model.config())) use[layer].resize(num_experts);
  for (int64_t begin = 0; begin < count; begin += kWindowsAtOnce) {
    std::vector<int64_t> instances(std::min(kWindowsAtOnce, count - begin));
    std::iota(instances.begin(), instances.end(), begin);
    ASSIGN_OR_RETURN(Batch batch, windows.Load(instances));
    for (int64_t b = 0; targets && b < batch.batch_size; ++b) {
      targets->Apply(instances[b], b, &batch);
    }
    ASSIGN_OR_RETURN(
        const ForwardResult result,
        model.Evaluate(batch.inputs, batch.targets, batch.batch_size, MergeMode::kSegment,
                       /*want_routing=*/true, batch.first_visible));
    for (const LayerRoutingWeights& layer : result.routing) {
      RoutingTotals totals(num_experts);
      AddBatch(layer.weights, batch.lengths, /*tokens_per_decision=*/1, &totals, layer.chosen);
      for (int e = 0; e < num_experts; ++e) use[layer.layer][e] += ActiveCounts(totals)[e];
    }
  }
  return use;
}

absl::StatusOr<ConvertedModel> KeepExperts(LanguageModel& model, const ExpertUse& use,
                                           int num_kept) {
  const v1::RoutingConfig& routing = model.config().routing();
  RETURN_IF_ERROR(CheckKeepable(routing));
  RETURN_IF_ERROR(CheckNumKept(num_kept, routing.num_experts()));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, KeptConfig(model.config(), num_kept));
  ConvertedModel result;
  ASSIGN_OR_RETURN(result.model, LanguageModel::Create(config, /*seed=*/std::nullopt));
  CopyKept(model, ChooseKept(use, num_kept, &result.record), *result.model);
  return result;
}

absl::StatusOr<ConvertedModel> KeepOneExpert(LanguageModel& model, const ExpertUse& use) {
  RETURN_IF_ERROR(CheckKeepable(model.config().routing()));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, SingleExpertConfig(model.config()));
  ConvertedModel result;
  ASSIGN_OR_RETURN(result.model, LanguageModel::Create(config, /*seed=*/std::nullopt));
  CopyKept(model, ChooseKept(use, /*num_kept=*/1, &result.record), *result.model);
  return result;
}

}  // namespace braid
