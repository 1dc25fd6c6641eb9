#include "inference/huggingface/adapter_files.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "inference/huggingface/adapter_tensors.h"
#include "inference/huggingface/exported_files.h"
#include "inference/output_directory.h"
#include "inference/replaceable_output.h"
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

constexpr char kImportedAdapter[] = "imported";

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

// Returns the checksums of the base's matrices that have adapters, as metadata.
absl::StatusOr<std::map<std::string, std::string>> BaseChecksums(const ModelPath& model) {
  std::map<std::string, uint32_t> checksums;
  for (const v1::TensorChecksum& tensor : model.state.partial.tensors()) {
    checksums[tensor.name()] = tensor.crc32c();
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : ParameterLayout(model.state.model)) {
    shapes[spec.name] = spec.shape;
  }
  std::map<std::string, std::string> metadata;
  for (const AdapterSpec& spec : AdaptersOf(model.state.model, model.state.partial.finetuning())) {
    auto checksum = checksums.find(spec.matrix);
    if (checksum == checksums.end()) {  // the checkpoint holds its base
      std::vector<float> values(static_cast<size_t>(spec.in * spec.out));
      const CheckpointTensor matrix{spec.matrix, shapes.at(spec.matrix), values};
      RETURN_IF_ERROR(ReadWeights(model.checkpoint, model.state, {&matrix, 1}));
      const uint32_t crc32c = Crc32c(AsBytes(std::span<const float>(values)));
      checksum = checksums.insert({spec.matrix, crc32c}).first;
    }
    metadata[kBaseChecksum + spec.matrix] = Crc32cToHex(checksum->second);
  }
  return metadata;
}

// Compares the base of `partial` with the checksums in the metadata of `file`, if there are any.
absl::Status CheckBaseChecksums(const fs::path& file, const v1::PartialCheckpoint& partial) {
  ASSIGN_OR_RETURN(const SafetensorsFile weights, SafetensorsFile::Open(file));
  for (const v1::TensorChecksum& tensor : partial.tensors()) {
    const auto expected = weights.metadata().find(kBaseChecksum + tensor.name());
    const std::string got = Crc32cToHex(tensor.crc32c());
    if (expected == weights.metadata().end() || expected->second == got) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        file.string(), ": tensor ", tensor.name(), " of the base: got checksum ", got, " in ",
        partial.base().checkpoint(), ", expected ", expected->second,
        ": not the base that the adapter was trained on; name that model with --base"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileSummary> WriteAdapters(const AdapterFile& file,
                                          std::map<std::string, std::string> metadata,
                                          const fs::path& directory) {
  std::vector<TensorInfo> layout;
  for (const AdapterTensor& tensor : file.tensors) {
    layout.push_back({tensor.name, DType::kF32, tensor.shape});
  }
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(directory / kAdapterWeightsFile, layout,
                                                          std::move(metadata)));
  for (const AdapterTensor& tensor : file.tensors) {
    RETURN_IF_ERROR(writer->Write(tensor.name, AsBytes(std::span<const float>(tensor.value))));
  }
  return writer->Commit();
}

// Checks that the checksums in the metadata of `file` are those of matrices that the adapters of
// the base change, if it has any. Only then does CheckBaseChecksums tell a base with its adapters
// merged from one without them, and from the run that the adapter itself comes from.
absl::Status CheckKnowsAdapters(const fs::path& file, const ModelPath& base) {
  if (!base.state.partial.finetuning().has_lora()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SafetensorsFile weights, SafetensorsFile::Open(file));
  const std::vector<AdapterSpec> adapters =
      AdaptersOf(base.state.model, base.state.partial.finetuning());
  const bool known = std::ranges::any_of(adapters, [&](const AdapterSpec& spec) {
    return weights.metadata().contains(kBaseChecksum + spec.matrix);
  });
  if (known) return absl::OkStatus();
  const std::string& before = base.state.partial.base().checkpoint();
  return absl::InvalidArgumentError(absl::StrCat(
      "base: ", base.checkpoint.string(), " has adapters itself, of which ", file.string(),
      " has no checksum; expected the model that the adapter was trained on",
      before.empty() ? "" : absl::StrCat(", such as ", before),
      "; if that is this one with its adapters merged, use braid export and braid import, which "
      "merge them"));
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
  RETURN_IF_ERROR(CheckKnowsAdapters(fs::path(request.source_dir()) / kAdapterWeightsFile, base));
  return base;
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
  RETURN_IF_ERROR(CheckBaseChecksums(file, state.partial));
  RETURN_IF_ERROR(FillAdapters(file, weights, *state.model));
  state.upcycled = UsesExperts(base.state.model);
  state.moments = {0, state.model->trained_values().size()};
  state.m.assign(state.moments.size(), 0.0f);
  state.v.assign(state.moments.size(), 0.0f);
  return state;
}

}  // namespace

absl::StatusOr<v1::ExportResponse> ExportAdapter(const ModelPath& model, bool force,
                                                 const fs::path& output) {
  RETURN_IF_ERROR(CheckExportable(model));
  ASSIGN_OR_RETURN(const auto directory,
                   OutputDirectory::Create({output, force, CheckHoldsOnlyAnExport}));
  ASSIGN_OR_RETURN(const AdapterFile adapters, ReadAdapters(model));
  ASSIGN_OR_RETURN(auto metadata, BaseChecksums(model));
  v1::ExportResponse response;
  std::vector<FileSummary> files;
  ASSIGN_OR_RETURN(files.emplace_back(),
                   WriteAdapters(adapters, std::move(metadata), directory->staging()));
  ASSIGN_OR_RETURN(auto config, AtomicFile::Create(directory->staging() / kAdapterConfigFile));
  RETURN_IF_ERROR(
      config->Append(FormatAdapterConfig(adapters.lora, adapters.modules, model.state.model,
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
  int64_t num_parameters = 0;
  for (const AdapterTensor& tensor : adapters.tensors) {
    num_parameters += static_cast<int64_t>(tensor.value.size());
  }
  response.set_num_parameters(num_parameters);
  return response;
}

absl::StatusOr<v1::ImportResponse> ImportAdapter(const v1::ImportRequest& request) {
  const OutputPlace place{request.output_dir(), request.force(), CheckHoldsOnlyACheckpoint};
  ASSIGN_OR_RETURN(const auto output, OutputDirectory::Create(place));
  const fs::path path = fs::path(request.source_dir()) / kAdapterConfigFile;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const AdapterConfig config, ParseAdapterConfig(text, path));
  ASSIGN_OR_RETURN(const ModelPath base, FindAdapterBase(request, config));
  RETURN_IF_ERROR(CheckKeepsBase(output->path(), base.checkpoint.string()));
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
