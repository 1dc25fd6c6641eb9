#include "formats/weight_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/half_float.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int kWeightFilesDeepestLevel = 8;
// Number of elements that are converted to 16 bits at a time.
constexpr size_t kChunk = size_t{1} << 20;

absl::Status BadIndex(const fs::path& index, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(index.string(), ": ", problem));
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Returns whether `name` is a file of the directory itself; paths could lead out of it.
bool IsPlainName(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") && fs::path(name).filename() == name &&
         name.find('\0') == std::string::npos;
}

absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const fs::path& index) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(index));
  const absl::StatusOr<Json> json = ParseStrictJson(text, kWeightFilesDeepestLevel);
  if (!json.ok()) return BadIndex(index, std::string(json.status().message()));
  if (!json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object()) {
    return BadIndex(index, "expected an object with weight_map");
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : (*json)["weight_map"].items()) {
    if (!file.is_string() || !IsPlainName(file)) {
      return BadIndex(
          index, absl::StrCat("weight_map[\"", tensor, "\"]: got ", file.dump(),
                              ", expected the name of a .safetensors file in the same directory"));
    }
    files[tensor] = file;
  }
  return files;
}

absl::Status NoWeights(const fs::path& directory) {
  std::string hint;
  if (Exists(directory / "pytorch_model.bin") ||
      Exists(directory / "pytorch_model.bin.index.json")) {
    hint =
        "; it has pytorch_model.bin: load it in Python and call "
        "save_pretrained(directory, safe_serialization=True)";
  }
  return absl::NotFoundError(
      absl::StrCat(directory.string(), " holds neither ", kSingleFile, " nor ", kIndexFile, hint));
}

// Copies bits because files of other programs may hold 16-bit elements at odd addresses.
void Widen(std::string_view bytes, float (*widen)(uint16_t), std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    values[i] = widen(bits);
  }
}

bool IsFloatType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

std::optional<size_t> FirstNotFinite(std::span<const float> values) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (found == values.end()) return std::nullopt;
  return static_cast<size_t>(found - values.begin());
}

absl::Status WriteNarrow(std::span<const float> values, const TensorInfo& tensor,
                         SafetensorsWriter* writer) {
  const bool half = tensor.dtype == DType::kF16;
  uint16_t (*const narrow)(float) = half ? F16FromFloat : Bf16FromFloat;
  const uint16_t infinity = half ? 0x7c00 : 0x7f80;
  std::vector<uint16_t> bits;
  for (size_t begin = 0; begin < values.size(); begin += kChunk) {
    const auto chunk = values.subspan(begin, std::min(kChunk, values.size() - begin));
    bits.resize(chunk.size());
    std::transform(chunk.begin(), chunk.end(), bits.begin(), narrow);
    const auto overflow = std::find_if(bits.begin(), bits.end(),
                                       [&](uint16_t b) { return (b & infinity) == infinity; });
    if (overflow != bits.end()) {
      const size_t at = begin + static_cast<size_t>(overflow - bits.begin());
      return absl::OutOfRangeError(absl::StrCat(
          "tensor ", tensor.name, ", element ", at, ": ", values[at],
          half ? " does not fit float16; use bfloat16" : " does not fit bfloat16; use float32"));
    }
    RETURN_IF_ERROR(writer->Write(tensor.name, AsBytes<uint16_t>(bits)));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileSummary> WriteOneFile(const fs::path& path, const WeightsToWrite& weights,
                                         std::span<const TensorInfo> tensors) {
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(path, {tensors.begin(), tensors.end()}, {}));
  for (const TensorInfo& tensor : tensors) {
    ASSIGN_OR_RETURN(const std::span<const float> values, weights.values(tensor));
    if (const std::optional<size_t> bad = FirstNotFinite(values)) {
      return absl::DataLossError(
          absl::StrCat("tensor ", tensor.name, ", element ", *bad, ": got ", values[*bad],
                       ", expected a finite number: the weights are damaged, "
                       "or their training diverged"));
    }
    RETURN_IF_ERROR(tensor.dtype == DType::kF32 ? writer->Write(tensor.name, AsBytes(values))
                                                : WriteNarrow(values, tensor, writer.get()));
  }
  return writer->Commit();
}

std::string FileName(size_t number, size_t count) {
  if (count == 1) return kSingleFile;
  return absl::StrFormat("model-%05d-of-%05d.safetensors", number, count);
}

absl::StatusOr<FileSummary> WriteIndex(const fs::path& path, int64_t total_bytes,
                                       const std::map<std::string, std::string>& weight_map) {
  const nlohmann::ordered_json json = {{"metadata", {{"total_size", total_bytes}}},
                                       {"weight_map", weight_map}};
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(json.dump(2) + "\n"));
  return file->Commit();
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(const fs::path& directory) {
  WeightFiles weights;
  const fs::path index = directory / kIndexFile;
  if (Exists(directory / kSingleFile)) {
    RETURN_IF_ERROR(weights.OpenFile(directory / kSingleFile));
    return weights;
  }
  if (!Exists(index)) return NoWeights(directory);
  ASSIGN_OR_RETURN(const auto weight_map, ReadWeightMap(index));
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  for (const std::string& file : files) RETURN_IF_ERROR(weights.OpenFile(directory / file));
  RETURN_IF_ERROR(weights.CheckIndex(index, weight_map));
  return weights;
}

absl::StatusOr<WeightFiles> WeightFiles::OpenOne(const fs::path& file) {
  WeightFiles weights;
  RETURN_IF_ERROR(weights.OpenFile(file));
  return weights;
}

absl::Status WeightFiles::OpenFile(const fs::path& path) {
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  for (const TensorInfo& tensor : file.tensors()) {
    const auto [found, added] = file_of_.emplace(tensor.name, files_.size());
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " is in both ",
                                                     paths_[found->second].string(), " and ",
                                                     path.string(), ", expected it in one file"));
    }
  }
  paths_.push_back(path);
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status WeightFiles::CheckIndex(const fs::path& index,
                                     const std::map<std::string, std::string>& weight_map) const {
  for (const auto& [tensor, file] : weight_map) {
    const auto found = file_of_.find(tensor);
    if (found == file_of_.end() || paths_[found->second].filename() != file) {
      return BadIndex(index, absl::StrCat("tensor ", tensor, " is not in ", file,
                                          ", which the index names for it"));
    }
  }
  for (const auto& [tensor, file] : file_of_) {
    if (!weight_map.contains(tensor)) {
      return BadIndex(index, absl::StrCat("weight_map lacks tensor ", tensor, ", which is in ",
                                          paths_[file].filename().string()));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const TensorInfo* WeightFiles::Find(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].Find(name);
}

absl::StatusOr<std::string_view> WeightFiles::Bytes(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return absl::NotFoundError(absl::StrCat("no tensor ", name));
  return files_[found->second].Bytes(name);
}

absl::Status WeightFiles::Read(const std::string& name, std::span<float> values) const {
  const TensorInfo* const tensor = Find(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat("no tensor ", name));
  ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(name));
  BRAID_CHECK(bytes.size() == values.size() * DTypeBytes(tensor->dtype) ||
              !IsFloatType(tensor->dtype))
      << name;
  return ReadRange(name, 0, values);
}

absl::Status WeightFiles::ReadRange(const std::string& name, size_t first,
                                    std::span<float> values) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return absl::NotFoundError(absl::StrCat("no tensor ", name));
  const std::string path = paths_[found->second].string();
  ASSIGN_OR_RETURN(const std::string_view all, files_[found->second].Bytes(name));
  const DType dtype = Find(name)->dtype;
  if (!IsFloatType(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", name, ": got ",
                                                   std::string(DTypeName(dtype)),
                                                   ", expected F32, BF16 or F16"));
  }
  const auto width = static_cast<size_t>(DTypeBytes(dtype));
  BRAID_CHECK((first + values.size()) * width <= all.size()) << name;
  const std::string_view bytes = all.substr(first * width, values.size() * width);
  if (dtype == DType::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    Widen(bytes, dtype == DType::kF16 ? FloatFromF16 : FloatFromBf16, values);
  }
  ReleasePages(bytes);
  const std::optional<size_t> bad = FirstNotFinite(values);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", name, ", element ",
                                                 first + *bad, ": got ", values[*bad],
                                                 ", expected a finite number"));
}

std::vector<size_t> PlanWeightFiles(std::span<const int64_t> tensor_bytes, int64_t max_file_bytes) {
  std::vector<size_t> counts;
  int64_t filled = 0;
  for (const int64_t bytes : tensor_bytes) {
    if (counts.empty() || bytes > max_file_bytes - filled) {
      counts.push_back(0);
      filled = 0;
    }
    ++counts.back();
    filled = std::min(max_file_bytes, filled + bytes);
  }
  return counts;
}

absl::StatusOr<std::vector<FileSummary>> WriteWeightFiles(const fs::path& directory,
                                                          const WeightsToWrite& weights) {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const TensorInfo& tensor : weights.tensors) {
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
    sizes.push_back(bytes);
    total += bytes;
  }
  const std::vector<size_t> counts = PlanWeightFiles(sizes, weights.max_file_bytes);
  std::vector<FileSummary> files;
  std::map<std::string, std::string> weight_map;
  size_t begin = 0;
  for (const size_t count : counts) {
    const std::string name = FileName(files.size() + 1, counts.size());
    const auto tensors = std::span(weights.tensors).subspan(begin, count);
    for (const TensorInfo& tensor : tensors) weight_map[tensor.name] = name;
    ASSIGN_OR_RETURN(files.emplace_back(), WriteOneFile(directory / name, weights, tensors));
    begin += count;
  }
  if (counts.size() < 2) return files;
  ASSIGN_OR_RETURN(files.emplace_back(), WriteIndex(directory / kIndexFile, total, weight_map));
  return files;
}

}  // namespace braid
