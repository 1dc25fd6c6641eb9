#include "inference/model_conversion.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "conversion/unit_order.h"
#include "inference/kept_experts.h"
#include "inference/new_checkpoint.h"
#include "inference/output_directory.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/upcycling.h"
#include "proto/config_text.h"
#include "proto/stated_defaults.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"
#include "runs/starting_point.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kConverted[] = "converted";
constexpr char kRecordFile[] = "conversion.textproto";

using LayerOrders = std::map<int, UnitOrder>;

ExpertSplit MethodOf(v1::ExpertSplit::Method method) {
  if (method == v1::ExpertSplit::CONTIGUOUS) return ExpertSplit::kContiguous;
  if (method == v1::ExpertSplit::RANDOM) return ExpertSplit::kRandom;
  return ExpertSplit::kKeys;
}

// Returns the layers to split, ascending.
absl::StatusOr<std::set<int>> LayersOf(const v1::ExpertSplit& split, int num_layers) {
  std::set<int> layers;
  for (const int asked : split.layers()) {
    const int layer = asked < 0 ? num_layers + asked : asked;
    if (layer < 0 || layer >= num_layers) {
      return absl::InvalidArgumentError(absl::StrCat("layers: got ", asked, ", expected ",
                                                     -num_layers, " to ", num_layers - 1,
                                                     ": the model has ", num_layers, " layers"));
    }
    if (!layers.insert(layer).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("layers: layer ", layer, " is listed twice; list each layer once"));
    }
  }
  for (int layer = 0; split.layers().empty() && layer < num_layers; ++layer) layers.insert(layer);
  return layers;
}

// Copies add up to the dense function with weights that sum to 1, slices with weights of 1.
absl::StatusOr<v1::ModelConfig> SplitConfig(const v1::ModelConfig& dense,
                                            const v1::ExpertSplit& split,
                                            const std::set<int>& layers) {
  const bool copies = split.method() == v1::ExpertSplit::COPIES;
  v1::ModelConfig config = dense;
  config.clear_preset();
  v1::RoutingConfig* routing = config.mutable_routing();
  routing->Clear();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(split.num_experts());
  for (const int layer : layers) routing->add_moe_layers(layer);
  v1::TokenRouting* token = routing->mutable_token();
  token->set_gate(split.gate());
  if (split.gate() == v1::TokenRouting::GATE_UNSPECIFIED) {
    token->set_gate(copies ? v1::TokenRouting::LINEAR : v1::TokenRouting::KEY_MEAN);
  }
  token->set_combine_weights(copies ? v1::TokenRouting::SOFTMAX_OF_CHOSEN : v1::TokenRouting::ONES);
  if (copies) token->set_expert_d_ff(dense.d_ff());
  const int usual = copies ? std::min(2, split.num_experts()) : (split.num_experts() + 1) / 2;
  token->set_active_experts(split.has_active_experts() ? split.active_experts() : usual);
  return ResolveModelConfig(config);
}

// The unit order of each matrix of hidden units, by the name of the dense parameter.
std::map<std::string, const UnitOrder*> OrderOfParameters(const LayerOrders& orders) {
  std::map<std::string, const UnitOrder*> by_name;
  for (const auto& [layer, order] : orders) {
    for (const char* matrix : {"gate_proj.weight", "up_proj.weight", "down_proj.weight_t"}) {
      by_name[absl::StrCat(LayerPrefix(layer), "mlp.", matrix)] = &order;
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
  const auto order_of = OrderOfParameters(orders);
  for (Parameter& parameter : experts.parameters()) {
    const auto source = sources.find(DenseName(parameter.name));
    if (source == sources.end()) continue;
    const auto order = order_of.find(source->first);
    move(source->second->value, order == order_of.end() ? nullptr : order->second, parameter.value);
  }
}

absl::StatusOr<UnitOrder> OrderOfLayer(LanguageModel& dense, int layer,
                                       const v1::ExpertSplit& split) {
  const std::string keys = absl::StrCat(LayerPrefix(layer), "mlp.gate_proj.weight");
  for (const Parameter& parameter : dense.parameters()) {
    if (parameter.name != keys) continue;
    return SplitUnits(MethodOf(split.method()), parameter.value, parameter.shape[0],
                      parameter.shape[1], split.num_experts(), split.seed() + layer);
  }
  return absl::InternalError(absl::StrCat("the model has no parameter ", keys));
}

absl::Status CheckJoinable(const v1::ModelConfig& config) {
  const v1::RoutingConfig& routing = config.routing();
  const auto refuse = [](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat("the experts cannot become one FFN: ", problem));
  };
  if (!UsesExperts(config)) return refuse("the model is dense already");
  if (routing.router() != v1::TOKEN_CHOICE) {
    return refuse(absl::StrCat("the router is ", v1::Router_Name(routing.router()),
                               ", expected TOKEN_CHOICE; braid export --bake merges the experts of "
                               "one that averages them"));
  }
  if (ExpertWidth(config) * routing.num_experts() != config.d_ff()) {
    return refuse(absl::StrCat(routing.num_experts(), " experts of ", ExpertWidth(config),
                               " units are not slices of ", config.d_ff(), " units"));
  }
  if (routing.token().combine_weights() == v1::TokenRouting::ONES) return absl::OkStatus();
  return refuse(absl::StrCat(
      "combine weights are ",
      v1::TokenRouting::CombineWeights_Name(routing.token().combine_weights()),
      ", expected ONES; with others the sum is another function, with all experts too"));
}

absl::StatusOr<LayerOrders> OrdersOf(const v1::ModelConfig& config, const v1::Conversion* record) {
  LayerOrders orders;
  for (const int layer : MoeLayers(config)) {
    orders[layer].resize(config.d_ff());
    std::iota(orders[layer].begin(), orders[layer].end(), 0);
  }
  if (record == nullptr) return orders;
  for (const v1::LayerUnits& units : record->layers()) {
    const auto order = orders.find(units.layer());
    if (order == orders.end()) {
      return absl::DataLossError(
          absl::StrCat(kRecordFile, ": layer ", units.layer(), " has no experts in the model"));
    }
    order->second.assign(units.units().begin(), units.units().end());
    RETURN_IF_ERROR(CheckUnitOrder(order->second, config.d_ff()));
  }
  return orders;
}

// The record of the split that the model comes from: its own, or that of the checkpoint that its
// run started from. Absent when there is none.
absl::StatusOr<std::optional<v1::Conversion>> FindRecord(const ModelPath& path) {
  fs::path file = path.checkpoint / kRecordFile;
  if (path.run) {
    ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(*path.run).ReadSpec());
    if (spec.init_from().empty()) return std::nullopt;
    const absl::StatusOr<StartingPoint> start = FindStartingPoint(spec.init_from());
    if (!start.ok()) return std::nullopt;
    file = start->checkpoint / kRecordFile;
  }
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedLines(*text, file));
  v1::Conversion record;
  RETURN_IF_ERROR(ParseConfig(*text, file.string(), &record));
  return record;
}

absl::Status WriteRecord(const v1::Conversion& record, const fs::path& checkpoint) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(record, &text);
  return WriteFileAtomically(checkpoint / kRecordFile, SealLines(text));
}

}  // namespace

absl::StatusOr<ConvertedModel> SplitIntoExperts(LanguageModel& dense,
                                                const v1::ExpertSplit& split) {
  if (UsesExperts(dense.config())) {
    return absl::InvalidArgumentError(
        "the model has experts, expected a dense one; --dense puts experts together");
  }
  ASSIGN_OR_RETURN(const std::set<int> layers, LayersOf(split, dense.config().num_layers()));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, SplitConfig(dense.config(), split, layers));
  ConvertedModel result;
  if (split.method() == v1::ExpertSplit::COPIES) {
    ASSIGN_OR_RETURN(result.model, Upcycle(dense, config, split.seed()));
    return result;
  }
  const auto start = std::chrono::steady_clock::now();
  LayerOrders orders;
  for (const int layer : layers) {
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
  ASSIGN_OR_RETURN(auto dense,
                   LanguageModel::Create(DenseCounterpart(experts.config()), /*seed=*/0));
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

namespace {

absl::StatusOr<ConvertedModel> KeepMostUsed(LanguageModel& model, const fs::path& checkpoint,
                                            v1::KeptExperts request) {
  FillStatedDefaults(&request);
  ASSIGN_OR_RETURN(const ExpertUse use,
                   CountExpertUse(model, checkpoint, request.dataset_dir(), request.max_windows()));
  ASSIGN_OR_RETURN(ConvertedModel kept, KeepExperts(model, use, request.num_experts()));
  if (request.dense()) {
    ASSIGN_OR_RETURN(kept.model, JoinExperts(*kept.model, /*record=*/nullptr));
  }
  return kept;
}

}  // namespace

absl::StatusOr<v1::ConvertResponse> Convert(const v1::ConvertRequest& request) {
  if (request.conversion_case() == v1::ConvertRequest::CONVERSION_NOT_SET) {
    return absl::InvalidArgumentError("conversion: expected split, dense or keep");
  }
  const OutputPlace place{request.output_dir(), request.force(), kManifestName};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.model(), request.strict()));
  ASSIGN_OR_RETURN(const auto source, LoadModel(path.checkpoint, path.state.use_average));
  ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(path.checkpoint / kTokenizerFile));
  v1::ConvertResponse response;
  ConvertedModel converted;
  if (request.has_split()) {
    ASSIGN_OR_RETURN(converted, SplitIntoExperts(*source, request.split()));
  } else if (request.has_keep()) {
    ASSIGN_OR_RETURN(converted, KeepMostUsed(*source, path.checkpoint, request.keep()));
  } else {
    ASSIGN_OR_RETURN(const std::optional<v1::Conversion> record, FindRecord(path));
    ASSIGN_OR_RETURN(converted.model, JoinExperts(*source, record ? &*record : nullptr));
    response.set_restored_order(record.has_value());
  }
  *converted.record.mutable_source() = path.source;
  *converted.record.mutable_request() = request;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = converted.model->config();
  response.set_num_parameters(static_cast<int64_t>(converted.model->values().size()));
  *response.mutable_source() = path.source;
  response.set_split_seconds(converted.split_seconds);
  ASSIGN_OR_RETURN(
      const fs::path checkpoint,
      WriteNewCheckpoint(std::move(converted.model), tokenizer, kConverted, output->staging()));
  RETURN_IF_ERROR(WriteRecord(converted.record, checkpoint));
  RETURN_IF_ERROR(output->Publish(checkpoint));
  return response;
}

}  // namespace braid
