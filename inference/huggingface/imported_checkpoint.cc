#include "inference/huggingface/imported_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "inference/huggingface/file_tensor.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/checkpoint.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// The dataset key of checkpoints that were not trained on a dataset of braid.
constexpr char kImported[] = "imported";
constexpr size_t kPartElements = size_t{4} << 20;

absl::StatusOr<ManifestEntry> WriteImportedWeights(const WeightFiles& weights,
                                                   const v1::ModelConfig& config,
                                                   const fs::path& directory) {
  const std::vector<ParameterSpec> parameters = ParameterLayout(config);
  std::vector<TensorInfo> layout;
  for (const ParameterSpec& p : parameters) layout.push_back({p.name, DType::kF32, p.shape});
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(directory / ModelFileName(0, 1), layout,
                                                          {{"step", "0"}}));
  for (const ParameterSpec& parameter : parameters) {
    for (const FileTensor& tensor : FileTensorsOf(config, parameter, HasBareNames(weights))) {
      RETURN_IF_ERROR(ReadParameterPart(weights, tensor, [&](std::span<const float> values) {
        return writer->Write(parameter.name, AsBytes(values));
      }));
    }
  }
  ASSIGN_OR_RETURN(const FileSummary summary, writer->Commit());
  return MakeManifestEntry(summary, static_cast<int64_t>(parameters.size()));
}

absl::StatusOr<ManifestEntry> WriteZeroMoments(const std::vector<ParameterSpec>& parameters,
                                               const fs::path& directory) {
  std::vector<CheckpointTensor> tensors;
  for (const ParameterSpec& p : parameters) tensors.push_back({p.name, p.shape, {}});
  const int64_t size = parameters.back().offset + parameters.back().size;
  const Shard all{0, static_cast<size_t>(size)};
  auto metadata = MomentsMetadata(all, LayoutFingerprint(tensors));
  metadata["step"] = "0";
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(
                       directory / OptimizerFileName(0, 1),
                       {{"m", DType::kF32, {size}}, {"v", DType::kF32, {size}}}, metadata));
  const std::vector<float> zeros(std::min(kPartElements, all.size()));
  for (const char* name : {"m", "v"}) {
    for (size_t first = 0; first < all.size(); first += zeros.size()) {
      const auto part = std::span(zeros).first(std::min(zeros.size(), all.size() - first));
      RETURN_IF_ERROR(writer->Write(name, AsBytes(part)));
    }
  }
  ASSIGN_OR_RETURN(const FileSummary summary, writer->Commit());
  return MakeManifestEntry(summary, 2);
}

// Returns the element type of all tensors; empty when they have several.
std::string CommonDType(const WeightFiles& weights, const v1::ModelConfig& config) {
  std::set<DType> found;
  for (const ParameterSpec& parameter : ParameterLayout(config)) {
    for (const FileTensor& tensor : FileTensorsOf(config, parameter, HasBareNames(weights))) {
      found.insert(weights.Find(tensor.name)->dtype);
    }
  }
  return found.size() == 1 ? std::string(DTypeName(*found.begin())) : "";
}

}  // namespace

absl::Status ReadParameterPart(const WeightFiles& weights, const FileTensor& tensor,
                               const TakeValues& take) {
  const auto size = static_cast<size_t>(tensor.size), place = static_cast<size_t>(tensor.place);
  std::vector<float> values;
  if (!tensor.transposed) {
    for (size_t first = 0; first < size; first += kPartElements) {
      values.resize(std::min(kPartElements, size - first));
      RETURN_IF_ERROR(weights.ReadRange(tensor.name, place + first, values));
      RETURN_IF_ERROR(take(values));
    }
    return absl::OkStatus();
  }
  const int64_t rows = tensor.shape.end()[-2], columns = tensor.shape.end()[-1];
  values.resize(static_cast<size_t>(rows * columns));
  std::vector<float> transposed(values.size());
  for (size_t first = 0; first < size; first += values.size()) {
    RETURN_IF_ERROR(weights.ReadRange(tensor.name, first, values));
    TransposeMatrices(values, rows, columns, transposed);
    RETURN_IF_ERROR(
        take(std::span<const float>(transposed).subspan(place, std::min(size, values.size()))));
  }
  return absl::OkStatus();
}

bool HasBareNames(const WeightFiles& weights) { return weights.Find("wte.weight") != nullptr; }

absl::Status WriteImportedCheckpoint(const WeightFiles& weights, const v1::ModelConfig& config,
                                     const std::string& tokenizer_bytes,
                                     const fs::path& directory) {
  const std::vector<ParameterSpec> parameters = ParameterLayout(config);
  CheckpointState state;
  state.upcycled = UsesExperts(config);
  state.dataset_key = kImported;
  state.model = config;
  state.source_dtype = CommonDType(weights, config);
  Manifest manifest{
      .kind = kCheckpointKind, .key = kImported, .settings = {{"step", "0"}, {"world_size", "1"}}};
  ASSIGN_OR_RETURN(manifest.files.emplace_back(), WriteImportedWeights(weights, config, directory));
  ASSIGN_OR_RETURN(manifest.files.emplace_back(), WriteZeroMoments(parameters, directory));
  const std::pair<const char*, std::string> texts[] = {{kStateFile, StateText(state)},
                                                       {kConfigFile, ConfigText(config)},
                                                       {kTokenizerFile, tokenizer_bytes}};
  for (const auto& [name, text] : texts) {
    ASSIGN_OR_RETURN(manifest.files.emplace_back(),
                     WriteFileForManifest(directory / name, text, 1));
  }
  return manifest.Save(directory);
}

}  // namespace braid
