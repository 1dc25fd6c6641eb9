#include "trainer/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/check.h"
#include "formats/file_error.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/status_macros.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "proto/config_text.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kStateFile[] = "state.json";
constexpr char kConfigFile[] = "model.textproto";
constexpr char kTokenizerFile[] = "tokenizer.model";
constexpr char kPrefix[] = "step-";
constexpr char kTemporary[] = ".tmp";

struct NamedArray {
  std::string name;
  const std::vector<int64_t>* shape;
  std::span<float> values;
};

std::vector<NamedArray> Weights(std::span<const CheckpointTensor> tensors) {
  std::vector<NamedArray> arrays;
  for (const CheckpointTensor& t : tensors) arrays.push_back({t.name, &t.shape, t.value});
  return arrays;
}

std::vector<NamedArray> MomentArrays(std::span<const CheckpointTensor> tensors) {
  std::vector<NamedArray> arrays;
  for (const CheckpointTensor& t : tensors) {
    arrays.push_back({"m." + t.name, &t.shape, t.m});
    arrays.push_back({"v." + t.name, &t.shape, t.v});
  }
  return arrays;
}

absl::StatusOr<ManifestEntry> WriteArrays(const fs::path& path,
                                          const std::vector<NamedArray>& arrays,
                                          const CheckpointState& state) {
  std::vector<TensorInfo> layout;
  for (const NamedArray& a : arrays) layout.push_back({a.name, DType::kF32, *a.shape});
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(path, layout, {{"step", absl::StrCat(state.step)}}));
  for (const NamedArray& a : arrays) {
    RETURN_IF_ERROR(writer->Write(a.name, AsBytes(std::span<const float>(a.values))));
  }
  ASSIGN_OR_RETURN(const FileSummary summary, writer->Commit());
  return MakeManifestEntry(summary, static_cast<int64_t>(arrays.size()));
}

absl::Status ReadArrays(const fs::path& path, const std::vector<NamedArray>& arrays) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  for (const NamedArray& a : arrays) {
    const TensorInfo* info = file.Find(a.name);
    if (info == nullptr || info->shape != *a.shape) {
      return absl::DataLossError(absl::StrCat(
          path.string(), info == nullptr ? " lacks tensor " : " has another shape for tensor ",
          a.name, " that model.textproto beside it asks for"));
    }
    ASSIGN_OR_RETURN(const std::span<const float> values, file.Float(a.name));
    std::copy(values.begin(), values.end(), a.values.begin());
  }
  return absl::OkStatus();
}

std::string StateText(const CheckpointState& state) {
  const nlohmann::json json = {{"step", state.step},
                               {"num_tokens", state.num_tokens},
                               {"upcycled", state.upcycled},
                               {"dataset_key", state.dataset_key}};
  return json.dump(2) + "\n";
}

absl::StatusOr<ManifestEntry> WriteText(const fs::path& path, std::string_view text) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(text));
  ASSIGN_OR_RETURN(const FileSummary summary, file->Commit());
  return MakeManifestEntry(summary, 1);
}

absl::Status WriteFiles(const fs::path& directory, const CheckpointState& state,
                        std::span<const CheckpointTensor> tensors, const fs::path& tokenizer) {
  std::string config;
  google::protobuf::TextFormat::PrintToString(state.model, &config);
  ASSIGN_OR_RETURN(const std::string tokenizer_bytes, ReadFile(tokenizer));
  Manifest manifest;
  manifest.kind = kCheckpointKind;
  manifest.key = state.dataset_key;
  manifest.settings = {{"step", absl::StrCat(state.step)}};
  const auto weights = directory / kModelFile;
  ASSIGN_OR_RETURN(manifest.files.emplace_back(), WriteArrays(weights, Weights(tensors), state));
  const auto moments = directory / kOptimizerFile;
  ASSIGN_OR_RETURN(manifest.files.emplace_back(),
                   WriteArrays(moments, MomentArrays(tensors), state));
  ASSIGN_OR_RETURN(manifest.files.emplace_back(),
                   WriteText(directory / kStateFile, StateText(state)));
  ASSIGN_OR_RETURN(manifest.files.emplace_back(), WriteText(directory / kConfigFile, config));
  ASSIGN_OR_RETURN(manifest.files.emplace_back(),
                   WriteText(directory / kTokenizerFile, tokenizer_bytes));
  return manifest.Save(directory);
}

absl::Status Remove(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? SystemError("remove", path, error.value()) : absl::OkStatus();
}

// Renamed first: a removal that is cut short leaves no half checkpoint that
// looks like a whole one.
absl::Status RemoveCheckpoint(const fs::path& checkpoint) {
  fs::path aside = checkpoint;
  aside += ".old";
  aside += kTemporary;
  RETURN_IF_ERROR(Remove(aside));
  std::error_code error;
  fs::rename(checkpoint, aside, error);
  if (error) return SystemError("rename", checkpoint, error.value());
  return Remove(aside);
}

struct Listing {
  std::vector<fs::path> checkpoints;  // newest first
  std::vector<fs::path> leftovers;
};

bool IsCheckpointName(const std::string& name) {
  return absl::StartsWith(name, kPrefix) && name.size() > sizeof(kPrefix) - 1 &&
         std::all_of(name.begin() + sizeof(kPrefix) - 1, name.end(),
                     [](unsigned char c) { return c >= '0' && c <= '9'; });
}

absl::StatusOr<Listing> List(const fs::path& directory) {
  Listing listing;
  std::error_code error;
  if (!fs::exists(directory, error)) return listing;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (IsCheckpointName(name)) listing.checkpoints.push_back(it->path());
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kTemporary)) {
      listing.leftovers.push_back(it->path());
    }
  }
  if (error) return SystemError("list", directory, error.value());
  // By number: names of more than eight digits are longer.
  std::sort(listing.checkpoints.begin(), listing.checkpoints.end(),
            [](const fs::path& a, const fs::path& b) {
              const std::string x = a.filename().string(), y = b.filename().string();
              return std::pair(x.size(), x) > std::pair(y.size(), y);
            });
  return listing;
}

absl::Status PublishCheckpoint(const fs::path& temporary, const fs::path& final_path) {
  std::error_code error;
  if (fs::exists(final_path, error)) RETURN_IF_ERROR(RemoveCheckpoint(final_path));
  return PublishDirectory(temporary, final_path);
}

}  // namespace

fs::path CheckpointPath(const fs::path& checkpoints, int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "%s%08lld", kPrefix, static_cast<long long>(step));
  return checkpoints / name;
}

absl::Status WriteCheckpoint(const fs::path& checkpoints, const CheckpointState& state,
                             std::span<const CheckpointTensor> tensors, const fs::path& tokenizer) {
  const fs::path final_path = CheckpointPath(checkpoints, state.step);
  fs::path temporary = final_path;
  temporary += kTemporary;
  RETURN_IF_ERROR(Remove(temporary));
  RETURN_IF_ERROR(MakeDirectories(temporary));
  absl::Status status = WriteFiles(temporary, state, tensors, tokenizer);
  if (status.ok()) status = PublishCheckpoint(temporary, final_path);
  if (!status.ok()) (void)Remove(temporary);
  return status;
}

absl::Status VerifyCheckpoint(const fs::path& checkpoint) {
  ASSIGN_OR_RETURN(const Manifest manifest, LoadVerifiedManifest(checkpoint));
  if (manifest.kind != kCheckpointKind) {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint.string(), " is of kind '",
                                                   manifest.kind, "', expected '", kCheckpointKind,
                                                   "'"));
  }
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile, kConfigFile, kTokenizerFile}) {
    if (manifest.Find(name) == nullptr) {
      return absl::DataLossError(absl::StrCat(checkpoint.string(), ": manifest.json lacks ", name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointState> ReadCheckpointState(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kStateFile;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* field, auto check) {
    return json.is_object() && json.contains(field) && (json[field].*check)();
  };
  using J = nlohmann::json;
  if (!is("step", &J::is_number_integer) || !is("num_tokens", &J::is_number_integer) ||
      !is("upcycled", &J::is_boolean) || !is("dataset_key", &J::is_string)) {
    return absl::DataLossError(
        absl::StrCat(path.string(), ": expected step, num_tokens, upcycled and dataset_key"));
  }
  CheckpointState state;
  state.step = json["step"];
  state.num_tokens = json["num_tokens"];
  state.upcycled = json["upcycled"];
  state.dataset_key = json["dataset_key"];
  ASSIGN_OR_RETURN(const std::string config, ReadFile(checkpoint / kConfigFile));
  RETURN_IF_ERROR(ParseConfig(config, (checkpoint / kConfigFile).string(), &state.model));
  return state;
}

absl::Status ReadCheckpointTensors(const fs::path& checkpoint, Moments moments,
                                   std::span<const CheckpointTensor> tensors) {
  RETURN_IF_ERROR(ReadArrays(checkpoint / kModelFile, Weights(tensors)));
  if (moments == Moments::kSkip) return absl::OkStatus();
  return ReadArrays(checkpoint / kOptimizerFile, MomentArrays(tensors));
}

absl::StatusOr<std::optional<fs::path>> NewestGoodCheckpoint(const fs::path& checkpoints,
                                                             std::ostream& warnings) {
  ASSIGN_OR_RETURN(const Listing listing, List(checkpoints));
  for (const fs::path& checkpoint : listing.checkpoints) {
    const absl::Status status = VerifyCheckpoint(checkpoint);
    if (status.ok()) return checkpoint;
    warnings << "checkpoint " << checkpoint.string()
             << " is damaged and not used: " << status.message() << std::endl;
  }
  if (listing.checkpoints.empty()) return std::nullopt;
  return absl::DataLossError(absl::StrCat(
      "none of the ", listing.checkpoints.size(), " checkpoints in ", checkpoints.string(),
      " is good; remove them to start again from the first step"));
}

absl::Status RotateCheckpoints(const fs::path& checkpoints, int64_t step, int keep_last) {
  BRAID_CHECK(keep_last >= 1) << keep_last;
  ASSIGN_OR_RETURN(const Listing listing, List(checkpoints));
  const auto newest = std::find(listing.checkpoints.begin(), listing.checkpoints.end(),
                                CheckpointPath(checkpoints, step));
  BRAID_CHECK(newest != listing.checkpoints.end()) << step;
  for (auto it = listing.checkpoints.begin(); it != listing.checkpoints.end(); ++it) {
    const bool kept = it >= newest && it - newest < keep_last;
    if (!kept) RETURN_IF_ERROR(RemoveCheckpoint(*it));
  }
  for (const fs::path& leftover : listing.leftovers) RETURN_IF_ERROR(Remove(leftover));
  return absl::OkStatus();
}

}  // namespace braid
