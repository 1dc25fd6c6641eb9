#include "runs/checkpoint.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "google/protobuf/text_format.h"
#include "model/config/finetuning_config.h"
#include "nlohmann/json.hpp"
#include "proto/config_text.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// A damaged checkpoint is passed over or named by its reader, and cannot be made again.
constexpr std::string_view kNoHint;

std::string ShardedName(const char* stem, int rank, int world_size) {
  if (world_size == 1) return absl::StrCat(stem, ".safetensors");
  return absl::StrFormat("%s-%05d-of-%05d.safetensors", stem, rank + 1, world_size);
}

absl::Status ExpectListed(const fs::path& checkpoint, const Manifest& manifest,
                          const std::string& name) {
  if (manifest.Find(name) != nullptr) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(checkpoint.string(), ": manifest.json lacks ", name));
}

absl::StatusOr<int> WorldSizeOf(const fs::path& checkpoint, const Manifest& manifest) {
  const auto setting = manifest.settings.find("world_size");
  int world_size = 0;
  if (setting == manifest.settings.end() || !absl::SimpleAtoi(setting->second, &world_size) ||
      world_size < 1) {
    return absl::DataLossError(
        absl::StrCat(checkpoint.string(), ": manifest.json lacks the setting world_size"));
  }
  return world_size;
}

// Verifies the files that ReadCheckpointState reads. Returns whether kFinetuningFile is one of
// them.
absl::StatusOr<bool> VerifySettings(const fs::path& checkpoint) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(checkpoint, kNoHint));
  for (const char* name : {kStateFile, kConfigFile}) {
    RETURN_IF_ERROR(ExpectListed(checkpoint, manifest, name));
    RETURN_IF_ERROR(VerifyFile(checkpoint, *manifest.Find(name), kNoHint));
  }
  const ManifestEntry* const partial = manifest.Find(kFinetuningFile);
  if (partial != nullptr) RETURN_IF_ERROR(VerifyFile(checkpoint, *partial, kNoHint));
  return partial != nullptr;
}

absl::Status ReadConfig(const fs::path& path, google::protobuf::Message* config) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseConfig(text, path.string(), config);
}

absl::Status CheckListing(const fs::path& checkpoint, const Manifest& manifest) {
  if (manifest.kind != kCheckpointKind) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.string(), " is of kind '",
                                                   manifest.kind, "', expected '", kCheckpointKind,
                                                   "'"));
  }
  ASSIGN_OR_RETURN(const int world_size, WorldSizeOf(checkpoint, manifest));
  for (int r = 0; r < world_size; ++r) {
    RETURN_IF_ERROR(ExpectListed(checkpoint, manifest, ModelFileName(r, world_size)));
    RETURN_IF_ERROR(ExpectListed(checkpoint, manifest, OptimizerFileName(r, world_size)));
  }
  for (const char* name : {kStateFile, kConfigFile, kTokenizerFile}) {
    RETURN_IF_ERROR(ExpectListed(checkpoint, manifest, name));
  }
  return absl::OkStatus();
}

absl::Status FillTensor(const fs::path& path, const SafetensorsFile& file,
                        const CheckpointTensor& tensor) {
  if (file.Find(tensor.name)->shape != tensor.shape) {
    return absl::DataLossError(absl::StrCat(path.string(), " has another shape for tensor ",
                                            tensor.name, " than model.textproto beside it"));
  }
  ASSIGN_OR_RETURN(const std::span<const float> values, file.Float(tensor.name));
  std::copy(values.begin(), values.end(), tensor.value.begin());
  return absl::OkStatus();
}

Shard Overlap(Shard a, Shard b) {
  const size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

absl::Status CheckMetadata(const fs::path& path, const SafetensorsFile& file,
                           const std::map<std::string, std::string>& expected) {
  for (const auto& [key, value] : expected) {
    const auto found = file.metadata().find(key);
    const std::string got = found == file.metadata().end() ? "nothing" : found->second;
    if (got == value) continue;
    return absl::DataLossError(absl::StrCat(path.string(), ": metadata ", key, ": got ", got,
                                            ", expected ", value,
                                            ": written for other tensors or by another version"));
  }
  return absl::OkStatus();
}

// Copies the elements `part` of tensor `name`; the first element in the file has index held.begin.
absl::Status FillPart(const fs::path& path, const SafetensorsFile& file, const char* name,
                      Shard held, Shard part, std::span<float> target) {
  ASSIGN_OR_RETURN(const std::span<const float> values, file.Float(name));
  if (values.size() != held.size()) {
    return absl::DataLossError(absl::StrCat(path.string(), ": tensor ", name, " has ",
                                            values.size(), " elements, expected ", held.size()));
  }
  std::copy_n(values.begin() + (part.begin - held.begin), part.size(), target.begin());
  return absl::OkStatus();
}

// Reads the fields that early checkpoints lack, and runs without validation or spike detection.
absl::Status ReadHistories(const nlohmann::json& json, const fs::path& path,
                           CheckpointState* state) {
  try {
    if (json.contains("validation")) {
      json["validation"].at("best_loss").get_to(state->validation.best_loss);
      json["validation"].at("best_step").get_to(state->validation.best_step);
      json["validation"].at("num_worse").get_to(state->validation.num_worse);
    }
    if (json.contains("gate_penalty")) json["gate_penalty"].get_to(state->gate_penalty);
    if (json.contains("spikes")) {
      json["spikes"].at("losses").get_to(state->spikes.losses);
      json["spikes"].at("log_norms").get_to(state->spikes.log_norms);
      json["spikes"].at("num_consecutive").get_to(state->spikes.num_consecutive);
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(path.string(), ": ", error.what()));
  }
  if (state->spikes.losses.size() == state->spikes.log_norms.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path.string(), ": spikes: got ",
                                          state->spikes.losses.size(), " losses and ",
                                          state->spikes.log_norms.size(), " log_norms"));
}

// Fills the tensors from the files of the weights.
absl::Status ReadStored(const fs::path& checkpoint, const CheckpointState& state,
                        std::span<const CheckpointTensor> tensors) {
  std::map<std::string, const CheckpointTensor*> missing;
  for (const CheckpointTensor& tensor : tensors) missing[tensor.name] = &tensor;
  for (int r = 0; r < state.world_size; ++r) {
    const fs::path path = checkpoint / ModelFileName(r, state.world_size);
    ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
    for (const TensorInfo& info : file.tensors()) {
      const auto found = missing.find(info.name);
      if (found == missing.end()) continue;
      RETURN_IF_ERROR(FillTensor(path, file, *found->second));
      missing.erase(found);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(checkpoint.string(), " lacks tensor ",
                                          missing.begin()->first,
                                          ", which its model.textproto requires"));
}

// Where the average of each trained tensor lies among all elements that are trained.
struct AveragePlaces {
  std::map<std::string, size_t> begins;
  size_t size = 0;
  std::string layout;  // LayoutFingerprint of the trained tensors
};

AveragePlaces PlacesOf(const CheckpointState& state) {
  AveragePlaces places;
  std::vector<CheckpointTensor> trained;
  for (const ParameterSpec& spec : FinetunedLayout(state.model, state.partial.finetuning())) {
    if (spec.gradient_offset < 0) continue;
    places.begins[spec.name] = static_cast<size_t>(spec.gradient_offset);
    places.size += static_cast<size_t>(spec.size);
    trained.push_back({spec.name, spec.shape, {}});
  }
  places.layout = LayoutFingerprint(trained);
  return places;
}

// Fills the tensors from the ranges of the average that the files of the moments hold.
absl::Status ReadAverage(const fs::path& checkpoint, const CheckpointState& state,
                         const AveragePlaces& places, std::span<const CheckpointTensor> tensors) {
  for (int r = 0; r < state.world_size; ++r) {
    const Shard held = ShardOf(places.size, r, state.world_size);
    const fs::path path = checkpoint / OptimizerFileName(r, state.world_size);
    ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
    RETURN_IF_ERROR(CheckMetadata(path, file, MomentsMetadata(held, places.layout)));
    for (const CheckpointTensor& tensor : tensors) {
      const size_t begin = places.begins.at(tensor.name);
      const Shard part = Overlap(held, {begin, begin + tensor.value.size()});
      if (part.size() == 0) continue;
      RETURN_IF_ERROR(FillPart(path, file, kAverageTensor, held, part,
                               tensor.value.subspan(part.begin - begin)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string StateText(const CheckpointState& state) {
  nlohmann::json json = {{"step", state.step},
                         {"num_tokens", state.num_tokens},
                         {"upcycled", state.upcycled},
                         {"world_size", state.world_size},
                         {"dataset_key", state.dataset_key}};
  if (state.num_updates != state.step) json["num_updates"] = state.num_updates;
  if (state.dense_updates > 0) json["dense_updates"] = state.dense_updates;
  if (!state.source_dtype.empty()) json["source_dtype"] = state.source_dtype;
  if (state.has_average) json["has_average"] = true;
  if (state.gate_penalty > 0) json["gate_penalty"] = state.gate_penalty;
  if (state.validation.best_step > 0 || state.validation.num_worse > 0) {
    json["validation"] = {{"best_loss", state.validation.best_loss},
                          {"best_step", state.validation.best_step},
                          {"num_worse", state.validation.num_worse}};
  }
  if (!state.spikes.losses.empty() || state.spikes.num_consecutive > 0) {
    json["spikes"] = {{"losses", state.spikes.losses},
                      {"log_norms", state.spikes.log_norms},
                      {"num_consecutive", state.spikes.num_consecutive}};
  }
  return json.dump(2) + "\n";
}

std::string ConfigText(const google::protobuf::Message& config) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return text;
}

std::string ModelFileName(int rank, int world_size) {
  return ShardedName("model", rank, world_size);
}

std::string OptimizerFileName(int rank, int world_size) {
  return ShardedName("optimizer", rank, world_size);
}

std::string LayoutFingerprint(std::span<const CheckpointTensor> tensors) {
  uint32_t crc = 0;
  for (const CheckpointTensor& tensor : tensors) {
    std::string line = tensor.name;
    for (int64_t size : tensor.shape) absl::StrAppend(&line, " ", size);
    crc = Crc32c(line + "\n", crc);
  }
  return Crc32cToHex(crc);
}

std::map<std::string, std::string> MomentsMetadata(Shard range, const std::string& layout) {
  return {
      {"begin", absl::StrCat(range.begin)}, {"end", absl::StrCat(range.end)}, {"layout", layout}};
}

size_t NumElements(std::span<const CheckpointTensor> tensors) {
  size_t size = 0;
  for (const CheckpointTensor& tensor : tensors) size += tensor.value.size();
  return size;
}

absl::Status VerifyCheckpoint(const fs::path& checkpoint, int rank, int world_size) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(checkpoint, kNoHint));
  RETURN_IF_ERROR(CheckListing(checkpoint, manifest));
  for (size_t i = rank; i < manifest.files.size(); i += world_size) {
    RETURN_IF_ERROR(VerifyFile(checkpoint, manifest.files[i], kNoHint));
  }
  return absl::OkStatus();
}

v1::PartialCheckpoint StoredPartial(const v1::PartialCheckpoint& partial,
                                    const fs::path& directory) {
  v1::PartialCheckpoint stored = partial;
  const fs::path checkpoint = fs::absolute(directory).lexically_normal();
  const fs::path runs = checkpoint.parent_path().parent_path().parent_path();
  const fs::path from_home =
      fs::path(partial.base().checkpoint()).lexically_relative(runs.parent_path());
  if (!partial.has_base() || checkpoint.parent_path().filename() != "checkpoints" ||
      runs.filename() != "runs" || from_home.empty() || *from_home.begin() == "..") {
    return stored;
  }
  stored.mutable_base()->set_checkpoint(
      fs::path(partial.base().checkpoint()).lexically_relative(checkpoint).string());
  return stored;
}

absl::StatusOr<CheckpointState> ReadCheckpointState(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kStateFile;
  ASSIGN_OR_RETURN(const bool partial, VerifySettings(checkpoint));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* field, auto check) {
    return json.is_object() && json.contains(field) && (json[field].*check)();
  };
  using J = nlohmann::json;
  if (!is("step", &J::is_number_integer) || !is("num_tokens", &J::is_number_integer) ||
      !is("upcycled", &J::is_boolean) || !is("world_size", &J::is_number_integer) ||
      !is("dataset_key", &J::is_string)) {
    return absl::DataLossError(absl::StrCat(
        path.string(), ": expected step, num_tokens, upcycled, world_size and dataset_key"));
  }
  CheckpointState state;
  state.step = json["step"];
  state.num_updates =
      is("num_updates", &J::is_number_unsigned) ? json["num_updates"] : json["step"];
  if (is("dense_updates", &J::is_number_unsigned)) state.dense_updates = json["dense_updates"];
  state.num_tokens = json["num_tokens"];
  state.upcycled = json["upcycled"];
  state.world_size = json["world_size"];
  if (state.world_size < 1) {
    return absl::DataLossError(absl::StrCat(path.string(), ": world_size: got ", state.world_size,
                                            ", expected at least 1"));
  }
  state.dataset_key = json["dataset_key"];
  RETURN_IF_ERROR(ReadHistories(json, path, &state));
  if (is("source_dtype", &J::is_string)) state.source_dtype = json["source_dtype"];
  if (is("has_average", &J::is_boolean)) state.has_average = json["has_average"];
  RETURN_IF_ERROR(ReadConfig(checkpoint / kConfigFile, &state.model));
  if (!partial) return state;
  RETURN_IF_ERROR(ReadConfig(checkpoint / kFinetuningFile, &state.partial));
  if (state.partial.has_base()) {
    const fs::path stored = state.partial.base().checkpoint();
    std::error_code error;
    fs::path base = (fs::absolute(checkpoint) / stored).lexically_normal();
    if (!fs::exists(base, error)) {  // the checkpoint may be reached through a symbolic link
      const fs::path real = (fs::weakly_canonical(checkpoint, error) / stored).lexically_normal();
      if (fs::exists(real, error)) base = real;
    }
    state.partial.mutable_base()->set_checkpoint(base.string());
  }
  return state;
}

absl::Status ReadWeights(const fs::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors) {
  if (!state.use_average) return ReadStored(checkpoint, state, tensors);
  std::vector<CheckpointTensor> others, averaged;
  const AveragePlaces places = PlacesOf(state);
  for (const CheckpointTensor& tensor : tensors) {
    (places.begins.contains(tensor.name) ? averaged : others).push_back(tensor);
  }
  RETURN_IF_ERROR(ReadStored(checkpoint, state, others));
  return ReadAverage(checkpoint, state, places, averaged);
}

// Moments are stored as W ranges of one flat array and read as the range of this rank, so the
// number of ranks may change between attempts: each rank opens only the files that overlap with its
// range. The layout fingerprint ensures that both sides number the elements in the same way.
absl::Status ReadMoments(const fs::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors,
                         const CheckpointMoments& wanted) {
  BRAID_CHECK(wanted.m.size() == wanted.range.size() && wanted.v.size() == wanted.range.size());
  const size_t size = NumElements(tensors);
  for (int r = 0; r < state.world_size; ++r) {
    const Shard held = ShardOf(size, r, state.world_size);
    const Shard part = Overlap(held, wanted.range);
    if (part.size() == 0) continue;
    const fs::path path = checkpoint / OptimizerFileName(r, state.world_size);
    ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
    RETURN_IF_ERROR(CheckMetadata(path, file, MomentsMetadata(held, LayoutFingerprint(tensors))));
    const size_t at = part.begin - wanted.range.begin;
    RETURN_IF_ERROR(FillPart(path, file, "m", held, part, wanted.m.subspan(at)));
    RETURN_IF_ERROR(FillPart(path, file, "v", held, part, wanted.v.subspan(at)));
    if (wanted.average.empty() || !state.has_average) continue;
    RETURN_IF_ERROR(FillPart(path, file, kAverageTensor, held, part, wanted.average.subspan(at)));
  }
  return absl::OkStatus();
}

}  // namespace braid
