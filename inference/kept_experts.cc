#include "inference/kept_experts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/packed_dataset.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/checkpoint.h"
#include "trainer/data_loader.h"
#include "trainer/routing_totals.h"

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

absl::Status CheckKeepable(const v1::RoutingConfig& routing, int num_kept) {
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
  if (num_kept >= 2 && num_kept <= routing.num_experts()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("keep.num_experts: got ", num_kept,
                                                 ", expected 2 to ", routing.num_experts(),
                                                 ", the number of experts of the model"));
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

}  // namespace

absl::StatusOr<ExpertUse> CountExpertUse(LanguageModel& model, const fs::path& checkpoint,
                                         const fs::path& dataset_dir, int64_t max_windows) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  RETURN_IF_ERROR(CheckText(model.config(), checkpoint, dataset_dir, info));
  ASSIGN_OR_RETURN(const DataLoader windows, DataLoader::Open(dataset_dir / "instances", info));
  const int64_t count = std::min(windows.num_instances(), max_windows);
  const int num_experts = model.config().routing().num_experts();
  ExpertUse use;
  for (const int layer : MoeLayers(model.config())) use[layer].resize(num_experts);
  for (int64_t begin = 0; begin < count; begin += kWindowsAtOnce) {
    std::vector<int64_t> instances(std::min(kWindowsAtOnce, count - begin));
    std::iota(instances.begin(), instances.end(), begin);
    ASSIGN_OR_RETURN(const Batch batch, windows.Load(instances));
    ASSIGN_OR_RETURN(const ForwardResult result,
                     model.Evaluate(batch.inputs, batch.targets, batch.batch_size,
                                    MergeMode::kSegment, /*want_routing=*/true));
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
  RETURN_IF_ERROR(CheckKeepable(model.config().routing(), num_kept));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, KeptConfig(model.config(), num_kept));
  ConvertedModel result;
  ASSIGN_OR_RETURN(result.model, LanguageModel::Create(config, /*seed=*/0));
  std::map<std::string, std::vector<int32_t>> kept_by_prefix;
  for (const auto& [layer, counts] : use) {
    const std::vector<int32_t> kept = MostUsed(counts, num_kept);
    kept_by_prefix[absl::StrCat(LayerPrefix(layer), "mlp.")] = kept;
    v1::LayerUnits* record = result.record.add_layers();
    record->set_layer(layer);
    record->mutable_experts()->Assign(kept.begin(), kept.end());
  }
  const int num_experts = model.config().routing().num_experts();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& from = model.parameters()[i];
    const Parameter& to = result.model->parameters()[i];
    if (from.shape == to.shape) {
      std::ranges::copy(from.value, to.value.begin());
      continue;
    }
    // The experts of every parameter that has become smaller come one after the other.
    const std::string prefix = from.name.substr(0, from.name.find("mlp.") + 4);
    const size_t row = from.value.size() / static_cast<size_t>(num_experts);
    float* out = to.value.data();
    for (const int32_t expert : kept_by_prefix.at(prefix)) {
      out = std::ranges::copy(from.value.subspan(static_cast<size_t>(expert) * row, row), out).out;
    }
  }
  return result;
}

}  // namespace braid
