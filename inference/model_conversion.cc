#include "inference/model_conversion.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "conversion/unit_order.h"
#include "inference/kept_experts.h"
#include "inference/new_checkpoint.h"
#include "inference/output_directory.h"
#include "inference/replaceable_output.h"
#include "inference/weight_noise.h"
#include "model/config/expert_split_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/upcycling.h"
#include "proto/stated_defaults.h"
#include "runs/conversion_record.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kConverted[] = "converted";

using LayerOrders = std::map<int, UnitOrder>;

ExpertSplit MethodOf(v1::ExpertSplit::Method method) {
  if (method == v1::ExpertSplit::CONTIGUOUS) return ExpertSplit::kContiguous;
  if (method == v1::ExpertSplit::RANDOM) return ExpertSplit::kRandom;
  return ExpertSplit::kKeys;
}

// The unit order of each parameter of hidden units, by the name of the dense parameter.
std::map<std::string, const UnitOrder*> OrderOfParameters(const v1::ModelConfig& config,
                                                          const LayerOrders& orders) {
  std::map<std::string, const UnitOrder*> by_name;
  for (const auto& [layer, order] : orders) {
    for (const std::string& name : HiddenUnitNames(config)) {
      by_name[absl::StrCat(LayerPrefix(layer), "mlp.", name)] = &order;
    }
  }
  return by_name;
}

// Copies the parameters that `experts` shares with `dense`, with `move` for those of hidden units:
// move(dense values, order, expert values). Routers keep their values.
template <class Move>
void CopyParameters(LanguageModel& dense, LanguageModel& experts, const LayerOrders& orders,
                    const Move& move) {
  std::map<std::string, Parameter*> sources;
  for (Parameter& parameter : dense.parameters()) sources[parameter.name] = &parameter;
  const auto order_of = OrderOfParameters(dense.config(), orders);
  for (Parameter& parameter : experts.parameters()) {
    const auto source = sources.find(DenseName(parameter.name));
    if (source == sources.end()) continue;
    const auto order = order_of.find(source->first);
    move(source->second->value, order == order_of.end() ? nullptr : order->second, parameter.value);
  }
}

absl::StatusOr<UnitOrder> OrderOfLayer(LanguageModel& dense, int layer,
                                       const v1::ExpertSplit& split) {
  const std::string keys = KeysName(dense.config(), layer);
  for (const Parameter& parameter : dense.parameters()) {
    if (parameter.name != keys) continue;
    auto order = SplitUnits(MethodOf(split.method()), parameter.value, parameter.shape[0],
                            parameter.shape[1], split.num_experts(), split.seed() + layer);
    if (order.ok()) return order;
    return absl::Status(order.status().code(),
                        absl::StrCat(keys, ": ", order.status().message(),
                                     "; use other weights, or a split other than KEYS"));
  }
  return absl::InternalError(absl::StrCat("the model has no parameter ", keys));
}

absl::StatusOr<LayerOrders> OrdersOf(const v1::ModelConfig& config, const v1::Conversion* record) {
  LayerOrders orders;
  for (const int layer : MoeLayers(config)) {
    orders[layer].resize(config.d_ff());
    std::iota(orders[layer].begin(), orders[layer].end(), 0);
  }
  if (record == nullptr) return orders;
  for (const v1::LayerUnits& units : record->layers()) {
    if (units.units().empty()) continue;  // a layer whose experts were kept
    const auto order = orders.find(units.layer());
    if (order == orders.end()) {
      return absl::DataLossError(absl::StrCat("conversion.textproto: layer ", units.layer(),
                                              " has no experts in the model"));
    }
    order->second.assign(units.units().begin(), units.units().end());
    RETURN_IF_ERROR(CheckUnitOrder(order->second, config.d_ff()));
  }
  return orders;
}

// Checks that the source of a conversion is still what was converted. Older records have no key.
absl::Status CheckSourceKey(const std::optional<v1::Conversion>& record, const ModelPath& source) {
  if (!record || record->source_key().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string key, CheckpointKey(source.checkpoint));
  if (key == record->source_key()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(source.checkpoint.string(), " has the key \"",
                                                    key, "\", expected \"", record->source_key(),
                                                    "\""));
}

}  // namespace

absl::StatusOr<ConvertedModel> SplitIntoExperts(LanguageModel& dense,
                                                const v1::ExpertSplit& split) {
  ASSIGN_OR_RETURN(const v1::ModelConfig config, ExpertSplitConfig(dense.config(), split));
  ConvertedModel result;
  if (split.method() == v1::ExpertSplit::COPIES) {
    ASSIGN_OR_RETURN(result.model, Upcycle(dense, config, split.seed()));
    return result;
  }
  const auto start = std::chrono::steady_clock::now();
  LayerOrders orders;
  for (const int layer : MoeLayers(config)) {
    ASSIGN_OR_RETURN(orders[layer], OrderOfLayer(dense, layer, split));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSIGN_OR_RETURN(result.model, LanguageModel::Create(config, split.seed()));
  result.split_seconds = seconds.count();
  CopyParameters(dense, *result.model, orders,
                 [](std::span<float> from, const UnitOrder* order, std::span<float> to) {
                   if (order == nullptr) {
                     std::ranges::copy(from, to.begin());
                   } else {
                     ReorderUnits(from, *order, to);
                   }
                 });
  for (const auto& [layer, order] : orders) {
    v1::LayerUnits* units = result.record.add_layers();
    units->set_layer(layer);
    units->mutable_units()->Assign(order.begin(), order.end());
  }
  return result;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> JoinExperts(LanguageModel& experts,
                                                           const v1::Conversion* record) {
  RETURN_IF_ERROR(CheckJoinable(experts.config()));
  ASSIGN_OR_RETURN(const LayerOrders orders, OrdersOf(experts.config(), record));
  ASSIGN_OR_RETURN(
      auto dense, LanguageModel::Create(DenseCounterpart(experts.config()), /*seed=*/std::nullopt));
  CopyParameters(*dense, experts, orders,
                 [](std::span<float> to, const UnitOrder* order, std::span<float> from) {
                   if (order == nullptr) {
                     std::ranges::copy(from, to.begin());
                   } else {
                     RestoreUnits(from, *order, to);
                   }
                 });
  return dense;
}

absl::StatusOr<std::optional<v1::Conversion>> FindConversion(ModelPath* model, bool strict) {
  ModelPath at = *model;
  std::set<fs::path> seen;  // a model that was converted in its place is its own source
  while (seen.insert(at.checkpoint).second) {
    ASSIGN_OR_RETURN(std::optional<v1::Conversion> record, ReadConversion(at.checkpoint));
    // Without all experts of the split, units have no places to return to.
    if (record && record->request().has_keep()) return std::nullopt;
    // Noise leaves every unit where it is, so the split is recorded in the model before it.
    if (record && !record->request().has_noise()) return record;
    std::string start =
        record ? record->source().checkpoint() : at.state.partial.base().checkpoint();
    if (start.empty() && at.run) {
      ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(*at.run).ReadSpec());
      start = spec.init_from();
    }
    std::error_code error;
    if (start.empty() || !fs::exists(SplitReference(start).model, error)) return std::nullopt;
    absl::StatusOr<ModelPath> next = FindModel(start, /*strict=*/false);
    const absl::Status usable = next.ok() ? CheckSourceKey(record, *next) : next.status();
    if (!usable.ok()) {
      const std::string cause = absl::StrCat(
          "units were left in the order of the experts; if they had places, these are recorded in "
          "a model ",
          next.ok() ? "that was replaced: " : "that is damaged: ", usable.message());
      RETURN_IF_ERROR(AddSkipped({&cause, 1}, strict, &model->source));
      return std::nullopt;
    }
    at = *std::move(next);
  }
  return std::nullopt;
}

namespace {

// JoinExperts, which sets `seconds` to the time that it took.
absl::StatusOr<std::unique_ptr<LanguageModel>> TimedJoin(LanguageModel& experts,
                                                         const v1::Conversion* record,
                                                         double* seconds) {
  const auto start = std::chrono::steady_clock::now();
  auto dense = JoinExperts(experts, record);
  *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return dense;
}

}  // namespace

absl::StatusOr<bool> IsRecomposed(const ModelPath& model) {
  if (!model.run) return model.state.partial.finetuning().recompose();
  ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(*model.run).ReadSpec());
  return spec.finetuning().recompose();
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadRecomposed(ModelPath* model, bool strict,
                                                              double* join_seconds) {
  ASSIGN_OR_RETURN(const auto experts, LoadModel(model->checkpoint, model->state.use_average));
  ASSIGN_OR_RETURN(const std::optional<v1::Conversion> record, FindConversion(model, strict));
  double unused = 0;
  return TimedJoin(*experts, record ? &*record : nullptr, join_seconds ? join_seconds : &unused);
}

namespace {

absl::StatusOr<ConvertedModel> KeepMostUsed(LanguageModel& model, const fs::path& checkpoint,
                                            v1::KeptExperts request) {
  RETURN_IF_ERROR(CheckPredictsTokens(model.config(), checkpoint.string()));
  FillStatedDefaults(&request);
  ASSIGN_OR_RETURN(const ExpertUse use,
                   CountExpertUse(model, checkpoint, request.dataset_dir(), request.max_windows()));
  if (request.dense() && request.num_experts() == 1) return KeepOneExpert(model, use);
  ASSIGN_OR_RETURN(ConvertedModel kept, KeepExperts(model, use, request.num_experts()));
  if (request.dense()) {
    ASSIGN_OR_RETURN(kept.model, TimedJoin(*kept.model, /*record=*/nullptr, &kept.join_seconds));
  }
  return kept;
}

}  // namespace

absl::StatusOr<v1::ConvertResponse> Convert(const v1::ConvertRequest& request) {
  if (request.conversion_case() == v1::ConvertRequest::CONVERSION_NOT_SET) {
    return absl::InvalidArgumentError("conversion: expected split, dense, keep or noise");
  }
  const OutputPlace place{request.output_dir(), request.force(), CheckHoldsOnlyACheckpoint};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  ASSIGN_OR_RETURN(ModelPath path, FindModel(request.model(), request.strict()));
  RETURN_IF_ERROR(CheckKeepsBase(output->path(), path.state.partial.base().checkpoint()));
  RETURN_IF_ERROR(CheckPlainLayers(path.state.model, "model",
                                   "its gate was trained for the FFNs that it has; convert the "
                                   "model that it started from"));
  ASSIGN_OR_RETURN(auto source, LoadModel(path.checkpoint, path.state.use_average));
  ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(path.checkpoint / kTokenizerFile));
  v1::ConvertResponse response;
  ConvertedModel converted;
  if (request.has_split()) {
    ASSIGN_OR_RETURN(converted, SplitIntoExperts(*source, request.split()));
  } else if (request.has_keep()) {
    ASSIGN_OR_RETURN(converted, KeepMostUsed(*source, path.checkpoint, request.keep()));
  } else if (request.has_noise()) {
    RETURN_IF_ERROR(AddNoise(request.noise(), *source));
    converted.model = std::move(source);
  } else {
    ASSIGN_OR_RETURN(const std::optional<v1::Conversion> record,
                     FindConversion(&path, request.strict()));
    ASSIGN_OR_RETURN(converted.model,
                     TimedJoin(*source, record ? &*record : nullptr, &converted.join_seconds));
    response.set_restored_order(record.has_value());
  }
  *converted.record.mutable_source() = path.source;
  *converted.record.mutable_request() = request;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = converted.model->config();
  response.set_num_parameters(static_cast<int64_t>(converted.model->values().size()));
  *response.mutable_source() = path.source;
  response.set_split_seconds(converted.split_seconds);
  converted.record.set_split_seconds(converted.split_seconds);
  response.set_join_seconds(converted.join_seconds);
  ASSIGN_OR_RETURN(*converted.record.mutable_source_key(), CheckpointKey(path.checkpoint));
  response.set_source_key(converted.record.source_key());
  ASSIGN_OR_RETURN(
      const fs::path checkpoint,
      WriteNewCheckpoint(std::move(converted.model), tokenizer, kConverted, output->staging()));
  RETURN_IF_ERROR(WriteConversion(converted.record, checkpoint));
  RETURN_IF_ERROR(output->Publish(checkpoint));
  return response;
}

}  // namespace braid
