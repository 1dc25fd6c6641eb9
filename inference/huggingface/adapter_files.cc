#include "inference/huggingface/adapter_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/weight_files.h"
#include "inference/output_directory.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "trainer/checkpoint_weights.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kPeftPrefix[] = "base_model.model.";
constexpr int kAdapterConfigLevels = 8;
constexpr char kImportedAdapter[] = "imported";

std::string AdapterConfigText(const v1::Finetuning& finetuning, const v1::ModelConfig& model,
                              const std::string& base) {
  nlohmann::ordered_json saved;  // null: no module but adapters
  if (model.has_label_head()) saved = nlohmann::ordered_json::array({"score"});
  const v1::LoraConfig& lora = finetuning.lora();
  std::vector<std::string> modules;
  for (const std::string& target : lora.targets()) modules.push_back(target + "_proj");
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", model.has_label_head() ? "SEQ_CLS" : "CAUSAL_LM"},
                                 {"base_model_name_or_path", base},
                                 {"r", lora.rank()},
                                 {"lora_alpha", lora.alpha()},
                                 {"lora_dropout", lora.dropout()},
                                 {"use_rslora", lora.rs_lora()},
                                 {"target_modules", modules},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", false},
                                 {"inference_mode", true},
                                 {"modules_to_save", saved},
                                 {"rank_pattern", nlohmann::ordered_json::object()},
                                 {"alpha_pattern", nlohmann::ordered_json::object()}};
  if (!lora.layers().empty()) {
    json["layers_to_transform"] = std::vector<int>(lora.layers().begin(), lora.layers().end());
  }
  return json.dump(2) + "\n";
}

// PEFT adapts the q, k and v of a GPT-2 as one matrix, c_attn, with one A for the three.
absl::Status CheckProjections(const v1::ModelConfig& model, const std::string& advice) {
  if (!IsGpt2(model)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("adapter: got a model of the family GPT2, expected LLAMA: PEFT adapts its q, k "
                   "and v as one matrix (c_attn), but braid each by itself; ",
                   advice));
}

absl::Status CheckExportable(const ModelPath& model) {
  RETURN_IF_ERROR(
      CheckProjections(model.state.model, "export the model without --adapter, which merges all"));
  const v1::Finetuning& finetuning = model.state.partial.finetuning();
  if (!finetuning.has_lora()) {
    return absl::InvalidArgumentError(
        absl::StrCat("adapter: ", model.checkpoint.string(),
                     " holds no adapters; export the model without --adapter"));
  }
  if (finetuning.train().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "adapter: ", model.checkpoint.string(), " also trained ",
      absl::StrJoin(finetuning.train(), ", "),
      ", which adapter files do not hold; export the model without --adapter, which merges all"));
}

// Returns the adapters of a checkpoint, and its label head if it has one, with the tensors in
// `values`.
absl::Status ReadAdapters(const ModelPath& model, std::vector<ParameterSpec>* specs,
                          std::vector<std::vector<float>>* values) {
  std::vector<CheckpointTensor> tensors;
  for (ParameterSpec& spec : FinetunedLayout(model.state.model, model.state.partial.finetuning())) {
    if (spec.group == "adapter" || spec.name == kLabelHead) specs->push_back(std::move(spec));
  }
  for (const ParameterSpec& spec : *specs) values->emplace_back(spec.size);
  for (size_t i = 0; i < specs->size(); ++i) {
    tensors.push_back({(*specs)[i].name, (*specs)[i].shape, (*values)[i]});
  }
  return ReadWeights(model.checkpoint, model.state, tensors);
}

absl::StatusOr<FileSummary> WriteAdapters(const ModelPath& model, const fs::path& directory,
                                          int64_t* num_parameters) {
  std::vector<ParameterSpec> specs;
  std::vector<std::vector<float>> values;
  RETURN_IF_ERROR(ReadAdapters(model, &specs, &values));
  std::vector<TensorInfo> layout;
  for (const ParameterSpec& spec : specs) {
    layout.push_back({absl::StrCat(kPeftPrefix, spec.name), DType::kF32, spec.shape});
    *num_parameters += spec.size;
  }
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(directory / kAdapterWeightsFile, layout, {}));
  for (size_t i = 0; i < layout.size(); ++i) {
    RETURN_IF_ERROR(writer->Write(layout[i].name, AsBytes(std::span<const float>(values[i]))));
  }
  return writer->Commit();
}

absl::Status BadAdapterTensor(const fs::path& file, const std::string& name,
                              const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(file.string(), ": tensor ", name, ": ", problem));
}

// Sets targets and layers to those that tensors have, whose names are
// base_model.model.model.layers.L.BLOCK.TARGET_proj.lora_A.weight, or lora_B.
absl::Status FindTargets(const fs::path& file, const WeightFiles& weights, int num_layers,
                         v1::LoraConfig* lora) {
  std::set<std::string> targets;
  std::set<int> layers;
  for (const std::string& name : weights.names()) {
    const std::vector<std::string> parts = absl::StrSplit(name, '.');
    int layer = 0;
    const bool known = parts.size() == 9 && name.starts_with("base_model.model.model.layers.") &&
                       absl::SimpleAtoi(parts[4], &layer) && parts[6].ends_with("_proj");
    if (!known) {
      return BadAdapterTensor(file, name,
                              "expected names such as base_model.model.model.layers.0.self_attn."
                              "q_proj.lora_A.weight: adapters of a LLaMA model's projections");
    }
    if (layer < 0 || layer >= num_layers) {
      return BadAdapterTensor(
          file, name,
          absl::StrCat("expected layers 0 to ", num_layers - 1, ", which the base has"));
    }
    layers.insert(layer);
    targets.insert(parts[6].substr(0, parts[6].size() - 5));
  }
  lora->mutable_targets()->Assign(targets.begin(), targets.end());
  if (std::ssize(layers) < num_layers) lora->mutable_layers()->Assign(layers.begin(), layers.end());
  return absl::OkStatus();
}

std::string AdapterShape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Reads the adapters into `model`. Every adapter of the model must be there, and nothing else.
absl::Status FillAdapters(const fs::path& file, const WeightFiles& weights, LanguageModel& model) {
  std::set<std::string> left;
  for (const std::string& name : weights.names()) left.insert(name);
  for (Parameter& p : model.parameters()) {
    if (!p.trained) continue;
    const std::string name = absl::StrCat(kPeftPrefix, p.name);
    const TensorInfo* const tensor = weights.Find(name);
    if (tensor == nullptr) {
      return BadAdapterTensor(file, name,
                              "missing, expected adapters of the same matrices in every layer that "
                              "has some");
    }
    if (tensor->shape != p.shape) {
      return BadAdapterTensor(file, name,
                              absl::StrCat("got shape ", AdapterShape(tensor->shape), ", expected ",
                                           AdapterShape(p.shape)));
    }
    RETURN_IF_ERROR(weights.Read(name, p.value));
    left.erase(name);
  }
  if (left.empty()) return absl::OkStatus();
  return BadAdapterTensor(file, *left.begin(), "not an adapter of the base's matrices");
}

absl::StatusOr<ModelPath> FindAdapterBase(const v1::ImportRequest& request) {
  ASSIGN_OR_RETURN(ModelPath base, FindModel(request.base(), /*strict=*/true));
  RETURN_IF_ERROR(CheckProjections(base.state.model,
                                   "merge the adapter with PEFT and import the merged model"));
  RETURN_IF_ERROR(CheckPlainLayers(base.state.model, "base",
                                   "adapter files of other programs hold no gate of layers"));
  RETURN_IF_ERROR(CheckPredictsTokens(base.state.model, base.checkpoint.string()));
  if (base.state.use_average) {
    return absl::InvalidArgumentError(absl::StrCat(
        "base: got ", request.base(), ", expected the weights of a checkpoint, not their average"));
  }
  if (!base.state.partial.finetuning().has_lora()) return base;
  return absl::InvalidArgumentError(absl::StrCat("base: ", base.checkpoint.string(),
                                                 " has adapters itself; expected the model "
                                                 "that the adapter was trained on, such as ",
                                                 base.state.partial.base().checkpoint()));
}

// Returns the state of a run at step 0 that trains these adapters.
absl::StatusOr<TrainingState> AdapterState(const v1::ImportRequest& request,
                                           const ModelPath& base) {
  const fs::path directory = request.source_dir(), file = directory / kAdapterWeightsFile;
  const fs::path config = directory / kAdapterConfigFile;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(config));
  v1::Finetuning finetuning;
  ASSIGN_OR_RETURN(*finetuning.mutable_lora(), ParseAdapterConfig(text, config));
  ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::OpenOne(file));
  RETURN_IF_ERROR(
      FindTargets(file, weights, base.state.model.num_layers(), finetuning.mutable_lora()));
  ASSIGN_OR_RETURN(finetuning, ResolveFinetuning(finetuning, base.state.model));
  TrainingState state;
  ASSIGN_OR_RETURN(state.model, LanguageModel::Create(base.state.model, /*seed=*/0, finetuning));
  const std::vector<CheckpointTensor> tensors = BaseTensors(*state.model);
  RETURN_IF_ERROR(ReadMergedWeights(base.checkpoint, base.state, tensors));
  RETURN_IF_ERROR(FillAdapters(file, weights, *state.model));
  state.partial = PartialOf(finetuning, base.checkpoint.string(), base.state.step, tensors);
  state.upcycled = UsesExperts(base.state.model);
  state.moments = {0, state.model->trained_values().size()};
  state.m.assign(state.moments.size(), 0.0f);
  state.v.assign(state.moments.size(), 0.0f);
  return state;
}

}  // namespace

absl::StatusOr<v1::LoraConfig> ParseAdapterConfig(std::string_view text, const fs::path& path) {
  ASSIGN_OR_RETURN(const nlohmann::json json,
                   ParseStrictJsonObject(text, kAdapterConfigLevels, path));
  JsonFields fields(json, path.string());
  v1::LoraConfig lora;
  fields.Require(fields.Text("peft_type", "") == "LORA", "peft_type", "LORA");
  lora.set_rank(static_cast<int32_t>(fields.Integer("r", {.minimum = 1})));
  lora.set_alpha(fields.Number("lora_alpha", 8));
  lora.set_dropout(fields.Number("lora_dropout", 0));
  lora.set_rs_lora(fields.Flag("use_rslora"));
  fields.RequireOnly("use_dora", false, ": weights by magnitude and direction are not supported");
  fields.RequireOnly("bias", "none");
  fields.RequireOnly("lora_bias", false);
  fields.RequireOnly("fan_in_fan_out", false);
  for (const char* pattern : {"rank_pattern", "alpha_pattern"}) {
    fields.RequireOnly(pattern, nlohmann::json::object(),
                       ": adapters of several ranks or scales are not supported");
  }
  const nlohmann::json& saved = fields["modules_to_save"];
  fields.Require(saved.is_null() || saved.empty(), "modules_to_save", "no modules but adapters");
  for (const char* field : {"layer_replication", "target_parameters", "trainable_token_indices"}) {
    fields.Require(fields[field].is_null(), field, "nothing: adapters of projections only");
  }
  RETURN_IF_ERROR(fields.status());
  return lora;
}

absl::StatusOr<v1::ExportResponse> ExportAdapter(const ModelPath& model, bool force,
                                                 const fs::path& output) {
  RETURN_IF_ERROR(CheckExportable(model));
  ASSIGN_OR_RETURN(const auto directory, OutputDirectory::Create({output, force, ExportMarkers()}));
  v1::ExportResponse response;
  int64_t num_parameters = 0;
  std::vector<FileSummary> files;
  ASSIGN_OR_RETURN(files.emplace_back(),
                   WriteAdapters(model, directory->staging(), &num_parameters));
  ASSIGN_OR_RETURN(auto config, AtomicFile::Create(directory->staging() / kAdapterConfigFile));
  RETURN_IF_ERROR(
      config->Append(AdapterConfigText(model.state.partial.finetuning(), model.state.model,
                                       model.state.partial.base().checkpoint())));
  ASSIGN_OR_RETURN(files.emplace_back(), config->Commit());
  RETURN_IF_ERROR(directory->Publish(directory->staging()));
  for (const FileSummary& file : files) {
    v1::ExportedFile* const exported = response.add_files();
    exported->set_name(file.name);
    exported->set_bytes(file.bytes);
  }
  response.set_output_dir(directory->path().string());
  response.set_architecture("LORA");
  response.set_num_parameters(num_parameters);
  return response;
}

absl::StatusOr<v1::ImportResponse> ImportAdapter(const v1::ImportRequest& request) {
  const OutputPlace place{request.output_dir(), request.force(), {kManifestName}};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  ASSIGN_OR_RETURN(const ModelPath base, FindAdapterBase(request));
  ASSIGN_OR_RETURN(TrainingState state, AdapterState(request, base));
  RETURN_IF_ERROR(
      SaveState(state, output->staging(), kImportedAdapter, base.checkpoint / kTokenizerFile));
  RETURN_IF_ERROR(output->Publish(CheckpointPath(output->staging(), state.step)));
  v1::ImportResponse response;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = base.state.model;
  response.set_num_parameters(static_cast<int64_t>(state.model->trained_values().size()));
  return response;
}

}  // namespace braid
