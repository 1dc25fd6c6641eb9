#include "inference/huggingface/adapter_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/weight_files.h"
#include "inference/huggingface/adapter_tensors.h"
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

constexpr char kLabelTask[] = "SEQ_CLS";
constexpr int kAdapterConfigLevels = 8;
constexpr char kImportedAdapter[] = "imported";

std::string AdapterConfigText(const AdapterFile& file, const v1::ModelConfig& model,
                              const std::string& base) {
  nlohmann::ordered_json saved;  // null: no module but adapters
  if (model.has_label_head()) saved = nlohmann::ordered_json::array({"score"});
  const v1::LoraConfig& lora = file.lora;
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", model.has_label_head() ? kLabelTask : "CAUSAL_LM"},
                                 {"base_model_name_or_path", base},
                                 {"r", lora.rank()},
                                 {"lora_alpha", lora.alpha()},
                                 {"lora_dropout", lora.dropout()},
                                 {"use_rslora", lora.rs_lora()},
                                 {"target_modules", file.modules},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", IsGpt2(model)},
                                 {"inference_mode", true},
                                 {"modules_to_save", saved},
                                 {"rank_pattern", nlohmann::ordered_json::object()},
                                 {"alpha_pattern", nlohmann::ordered_json::object()}};
  if (!lora.layers().empty()) {
    json["layers_to_transform"] = std::vector<int>(lora.layers().begin(), lora.layers().end());
  }
  return json.dump(2) + "\n";
}

absl::Status CheckExportable(const ModelPath& model) {
  const v1::Finetuning& finetuning = model.state.partial.finetuning();
  if (!finetuning.has_lora()) {
    return absl::InvalidArgumentError(
        absl::StrCat("adapter: ", model.checkpoint.string(),
                     " holds no adapters; export the model without --adapter"));
  }
  for (const AdapterSpec& spec : AdaptersOf(model.state.model, finetuning)) {
    if (spec.experts == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "adapter: ", model.checkpoint.string(), " has adapters of experts (", spec.a,
        "), for which PEFT has no layout; export the model without --adapter, which merges them"));
  }
  if (finetuning.train().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "adapter: ", model.checkpoint.string(), " also trained ",
      absl::StrJoin(finetuning.train(), ", "),
      ", which adapter files do not hold; export the model without --adapter, which merges all"));
}

// Reads the adapters of a checkpoint, and its label head if it has one.
absl::StatusOr<AdapterFile> ReadAdapters(const ModelPath& model) {
  const v1::Finetuning& finetuning = model.state.partial.finetuning();
  std::vector<AdapterTensor> own;
  for (const ParameterSpec& spec : FinetunedLayout(model.state.model, finetuning)) {
    if (spec.group != "adapter" && spec.name != kLabelHead) continue;
    own.push_back({spec.name, spec.shape, std::vector<float>(spec.size)});
  }
  std::vector<CheckpointTensor> tensors;
  for (AdapterTensor& tensor : own) tensors.push_back({tensor.name, tensor.shape, tensor.value});
  RETURN_IF_ERROR(ReadWeights(model.checkpoint, model.state, tensors));
  return AdapterFileOf(model.state.model, finetuning, own);
}

absl::StatusOr<FileSummary> WriteAdapters(const AdapterFile& file, const fs::path& directory) {
  std::vector<TensorInfo> layout;
  for (const AdapterTensor& tensor : file.tensors) {
    layout.push_back({tensor.name, DType::kF32, tensor.shape});
  }
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(directory / kAdapterWeightsFile, layout, {}));
  for (const AdapterTensor& tensor : file.tensors) {
    RETURN_IF_ERROR(writer->Write(tensor.name, AsBytes(std::span<const float>(tensor.value))));
  }
  return writer->Commit();
}

absl::StatusOr<ModelPath> FindAdapterBase(const v1::ImportRequest& request,
                                          const AdapterConfig& config) {
  ASSIGN_OR_RETURN(ModelPath base, FindModel(request.base(), /*strict=*/true));
  if (config.fan_in_fan_out && !IsGpt2(base.state.model)) {
    return absl::InvalidArgumentError(
        absl::StrCat((fs::path(request.source_dir()) / kAdapterConfigFile).string(),
                     ": fan_in_fan_out: got true, expected false for a base of the family LLAMA"));
  }
  RETURN_IF_ERROR(CheckPlainLayers(base.state.model, "base",
                                   "adapter files of other programs hold no gate of layers"));
  if (!config.labels) {
    RETURN_IF_ERROR(CheckPredictsTokens(base.state.model, base.checkpoint.string()));
  }
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

// Returns the configuration of the base with the label head of the adapter, whose classes have the
// names that transformers gives them unless the base has a label head.
absl::StatusOr<v1::ModelConfig> WithLabels(const v1::ModelConfig& base, const fs::path& file,
                                           const WeightFiles& weights) {
  const TensorInfo* const score = weights.Find(kPeftLabelHead);
  if (score == nullptr) {
    return BadAdapterTensor(file, kPeftLabelHead,
                            "missing, expected the label head [classes, D] of a SEQ_CLS adapter");
  }
  // The width bounds the number of classes by the length of the file.
  if (score->shape.size() != 2 || score->shape[0] < 1 || score->shape[1] != base.d_model()) {
    return BadAdapterTensor(file, kPeftLabelHead,
                            absl::StrCat("got shape [", absl::StrJoin(score->shape, ", "),
                                         "], expected [classes, ", base.d_model(), "]"));
  }
  if (base.has_label_head()) return base;
  v1::ModelConfig model = base;
  v1::LabelHead* const head = model.mutable_label_head();
  head->set_regression(score->shape[0] == 1);
  for (int64_t i = 0; !head->regression() && i < score->shape[0]; ++i) {
    head->add_classes(absl::StrCat("LABEL_", i));
  }
  return ResolveModelConfig(model);
}

// Returns the state of a run at step 0 that trains these adapters.
absl::StatusOr<TrainingState> AdapterState(const v1::ImportRequest& request,
                                           const AdapterConfig& config, const ModelPath& base) {
  const fs::path file = fs::path(request.source_dir()) / kAdapterWeightsFile;
  v1::Finetuning finetuning;
  *finetuning.mutable_lora() = config.lora;
  ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::OpenOne(file));
  v1::ModelConfig model = base.state.model;
  if (config.labels) {
    ASSIGN_OR_RETURN(model, WithLabels(model, file, weights));
  }
  RETURN_IF_ERROR(FindTargets(file, weights, model, finetuning.mutable_lora()));
  ASSIGN_OR_RETURN(finetuning, ResolveFinetuning(finetuning, model));
  TrainingState state;
  ASSIGN_OR_RETURN(state.model, LanguageModel::Create(model, /*seed=*/0, finetuning));
  const std::vector<CheckpointTensor> tensors = HeldBy(base.state.model, BaseTensors(*state.model));
  RETURN_IF_ERROR(ReadMergedWeights(base.checkpoint, base.state, tensors));
  state.partial = PartialOf(finetuning, base.checkpoint.string(), base.state.step, tensors);
  RETURN_IF_ERROR(FillAdapters(file, weights, *state.model));
  state.upcycled = UsesExperts(base.state.model);
  state.moments = {0, state.model->trained_values().size()};
  state.m.assign(state.moments.size(), 0.0f);
  state.v.assign(state.moments.size(), 0.0f);
  return state;
}

}  // namespace

absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text, const fs::path& path) {
  ASSIGN_OR_RETURN(const nlohmann::json json,
                   ParseStrictJsonObject(text, kAdapterConfigLevels, path));
  JsonFields fields(json, path.string());
  AdapterConfig config;
  v1::LoraConfig& lora = config.lora;
  fields.Require(fields.Text("peft_type", "") == "LORA", "peft_type", "LORA");
  lora.set_rank(static_cast<int32_t>(fields.Integer("r", {.minimum = 1})));
  lora.set_alpha(fields.Number("lora_alpha", 8));
  lora.set_dropout(fields.Number("lora_dropout", 0));
  lora.set_rs_lora(fields.Flag("use_rslora"));
  fields.RequireOnly("use_dora", false, ": weights by magnitude and direction are not supported");
  fields.RequireOnly("bias", "none");
  fields.RequireOnly("lora_bias", false);
  config.fan_in_fan_out = fields.Flag("fan_in_fan_out");
  config.labels = fields.Text("task_type", "") == kLabelTask;
  for (const char* pattern : {"rank_pattern", "alpha_pattern"}) {
    fields.RequireOnly(pattern, nlohmann::json::object(),
                       ": adapters of several ranks or scales are not supported");
  }
  const nlohmann::json& saved = fields["modules_to_save"];
  const bool head = config.labels && saved.is_array() &&
                    std::ranges::all_of(saved, [](const nlohmann::json& module) {
                      return module == "score" || module == "classifier";
                    });
  fields.Require(saved.is_null() || saved.empty() || head, "modules_to_save",
                 "no modules but adapters, or the score of task_type SEQ_CLS");
  for (const char* field : {"layer_replication", "target_parameters", "trainable_token_indices"}) {
    fields.Require(fields[field].is_null(), field, "nothing: adapters of projections only");
  }
  RETURN_IF_ERROR(fields.status());
  return config;
}

absl::StatusOr<v1::ExportResponse> ExportAdapter(const ModelPath& model, bool force,
                                                 const fs::path& output) {
  RETURN_IF_ERROR(CheckExportable(model));
  ASSIGN_OR_RETURN(const auto directory, OutputDirectory::Create({output, force, ExportMarkers()}));
  ASSIGN_OR_RETURN(const AdapterFile adapters, ReadAdapters(model));
  v1::ExportResponse response;
  std::vector<FileSummary> files;
  ASSIGN_OR_RETURN(files.emplace_back(), WriteAdapters(adapters, directory->staging()));
  ASSIGN_OR_RETURN(auto config, AtomicFile::Create(directory->staging() / kAdapterConfigFile));
  RETURN_IF_ERROR(config->Append(
      AdapterConfigText(adapters, model.state.model, model.state.partial.base().checkpoint())));
  ASSIGN_OR_RETURN(files.emplace_back(), config->Commit());
  RETURN_IF_ERROR(directory->Publish(directory->staging()));
  for (const FileSummary& file : files) {
    v1::ExportedFile* const exported = response.add_files();
    exported->set_name(file.name);
    exported->set_bytes(file.bytes);
  }
  response.set_output_dir(directory->path().string());
  response.set_architecture("LORA");
  int64_t num_parameters = 0;
  for (const AdapterTensor& tensor : adapters.tensors) {
    num_parameters += static_cast<int64_t>(tensor.value.size());
  }
  response.set_num_parameters(num_parameters);
  return response;
}

absl::StatusOr<v1::ImportResponse> ImportAdapter(const v1::ImportRequest& request) {
  const OutputPlace place{request.output_dir(), request.force(), {kManifestName}};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  const fs::path path = fs::path(request.source_dir()) / kAdapterConfigFile;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const AdapterConfig config, ParseAdapterConfig(text, path));
  ASSIGN_OR_RETURN(const ModelPath base, FindAdapterBase(request, config));
  ASSIGN_OR_RETURN(TrainingState state, AdapterState(request, config, base));
  RETURN_IF_ERROR(
      SaveState(state, output->staging(), kImportedAdapter, base.checkpoint / kTokenizerFile));
  RETURN_IF_ERROR(output->Publish(CheckpointPath(output->staging(), state.step)));
  v1::ImportResponse response;
  response.set_output_dir(output->path().string());
  *response.mutable_model() = state.model->config();
  response.set_num_parameters(static_cast<int64_t>(state.model->trained_values().size()));
  return response;
}

}  // namespace braid
