#include "formats/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kHeaderLimit = 100'000'000;
constexpr char kMetadataKey[] = "__metadata__";
constexpr int kSafetensorsHeaderDeepestLevel = 4;

struct DTypeEntry {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr DTypeEntry kDTypes[] = {
    {DType::kBool, "BOOL", 1},
    {DType::kU8, "U8", 1},
    {DType::kI8, "I8", 1},
    {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E8M0, "F8_E8M0", 1},
    {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 1},
    {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 1},
    {DType::kU16, "U16", 2},
    {DType::kI16, "I16", 2},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kU32, "U32", 4},
    {DType::kI32, "I32", 4},
    {DType::kF32, "F32", 4},
    {DType::kU64, "U64", 8},
    {DType::kI64, "I64", 8},
    {DType::kF64, "F64", 8},
    {DType::kC64, "C64", 8},
};

const DTypeEntry& EntryOf(DType dtype) {
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const DTypeEntry& entry) { return entry.dtype == dtype; });
  BRAID_CHECK(found != std::end(kDTypes)) << static_cast<int>(dtype);
  return *found;
}

// Such a file is sound.
struct PartOfAByte : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

bool IsPartOfAByte(std::string_view dtype) {
  return dtype == "F4" || dtype == "F6_E2M3" || dtype == "F6_E3M2";
}

std::optional<DType> DTypeNamed(const std::string& name) {
  for (const DTypeEntry& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

int64_t NonNegative(const Json& json) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<int64_t>() < 0) ||
      json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    throw std::invalid_argument(json.dump() + " is not an integer of at least 0");
  }
  return json.get<int64_t>();
}

PlacedTensor TensorFromJson(const std::string& name, const Json& json) {
  PlacedTensor tensor{{name, DType::kF32, {}}};
  if (json.size() != 3) throw std::invalid_argument("expected dtype, shape and data_offsets");
  const std::string dtype = json.at("dtype").get<std::string>();
  const auto known = DTypeNamed(dtype);
  if (IsPartOfAByte(dtype)) {
    throw PartOfAByte("got element type " + dtype + ", expected one of whole bytes, such as BF16");
  }
  if (!known) throw std::invalid_argument("element type " + dtype + " is not supported");
  tensor.info.dtype = *known;
  const Json& shape = json.at("shape");
  const Json& offsets = json.at("data_offsets");
  if (!shape.is_array()) throw std::invalid_argument("shape is not an array");
  for (const Json& dimension : shape) tensor.info.shape.push_back(NonNegative(dimension));
  if (!offsets.is_array() || offsets.size() != 2) {
    throw std::invalid_argument("data_offsets is not a pair");
  }
  tensor.begin = NonNegative(offsets[0]);
  tensor.end = NonNegative(offsets[1]);
  return tensor;
}

// Throws for text that is not a header. CheckTiling checks the offsets.
SafetensorsHeader HeaderFromJson(std::string_view text) {
  SafetensorsHeader header;
  const absl::StatusOr<Json> parsed = ParseStrictJson(text, kSafetensorsHeaderDeepestLevel);
  if (!parsed.ok()) throw std::invalid_argument(std::string(parsed.status().message()));
  const Json& json = *parsed;
  if (!json.is_object()) throw std::invalid_argument("not an object");
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      if (!value.is_object()) throw std::invalid_argument("__metadata__ is not an object");
      header.metadata = value.get<std::map<std::string, std::string>>();
      continue;
    }
    try {
      header.tensors.push_back(TensorFromJson(name, value));
    } catch (const PartOfAByte& error) {
      throw PartOfAByte("tensor '" + name + "': " + error.what());
    } catch (const std::exception& error) {
      throw std::invalid_argument("tensor '" + name + "': " + error.what());
    }
  }
  return header;
}

// Checks that the tensors, sorted by offset, cover [0, data_bytes) exactly and match their shapes.
absl::Status CheckTiling(const SafetensorsHeader& header, int64_t data_bytes,
                         const std::filesystem::path& path) {
  int64_t end = 0;
  for (const PlacedTensor& tensor : header.tensors) {
    const std::string what = "range of tensor '" + tensor.info.name + "'";
    const std::string got = absl::StrCat("[", tensor.begin, ", ", tensor.end, ")");
    const auto bytes = TensorBytes(tensor.info);
    if (!bytes.ok()) {
      return CorruptFile(path, {what, kLengthBytes, std::string(bytes.status().message()),
                                "a shape that fits the file"});
    }
    if (tensor.begin != end || tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes) {
      return CorruptFile(
          path, {what, kLengthBytes, got, absl::StrCat("begin ", end, " and ", *bytes, " bytes"),
                 "Tensors must fill the data without holes or overlaps"});
    }
    end = tensor.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return CorruptFile(
      path, {"length", header.data_offset + data_bytes, absl::StrCat(data_bytes, " data bytes"),
             absl::StrCat(end, " data bytes according to the header"),
             "The file is truncated or has extra bytes"});
}

// Returns the JSON text; callers check that it begins with "{", as the format requires.
absl::StatusOr<std::string_view> FindJson(std::string_view file,
                                          const std::filesystem::path& path) {
  const int64_t file_bytes = static_cast<int64_t>(file.size());
  if (file_bytes < kLengthBytes) {
    return CorruptFile(path, {"length", 0, absl::StrCat(file_bytes, " bytes"), "at least 8 bytes"});
  }
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | static_cast<uint8_t>(file[i]);
  const int64_t limit = std::min(kHeaderLimit, file_bytes - kLengthBytes);
  if (length > static_cast<uint64_t>(limit)) {
    return CorruptFile(path,
                       {"header length", 0, absl::StrCat(length), absl::StrCat("at most ", limit),
                        "Check that it is a safetensors file"});
  }
  return file.substr(kLengthBytes, length);
}

}  // namespace

int64_t DTypeBytes(DType dtype) { return EntryOf(dtype).bytes; }

std::string_view DTypeName(DType dtype) { return EntryOf(dtype).name; }

absl::StatusOr<int64_t> TensorBytes(const TensorInfo& tensor) {
  int64_t bytes = DTypeBytes(tensor.dtype);
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name, "': invalid dimension ", dimension));
    }
  }
  return bytes;
}

absl::StatusOr<std::vector<PlacedTensor>> PlaceTensors(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(-DTypeBytes(a.dtype), std::string_view(a.name)) <
           std::pair(-DTypeBytes(b.dtype), std::string_view(b.name));
  });
  std::set<std::string> names = {kMetadataKey};
  std::vector<PlacedTensor> placed;
  int64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor name '", tensor.name, "' is repeated or reserved"));
    }
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor));
    const int64_t begin = end;
    if (__builtin_add_overflow(begin, bytes, &end)) {
      return absl::InvalidArgumentError("the total size of the tensors exceeds 2^63 - 1 bytes");
    }
    placed.push_back({std::move(tensor), begin, end});
  }
  return placed;
}

absl::StatusOr<std::string> FormatSafetensorsHeader(
    const std::vector<PlacedTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  try {
    if (!metadata.empty()) json += "\"__metadata__\":" + Json(metadata).dump();
    for (const PlacedTensor& tensor : tensors) {
      absl::StrAppend(&json, json.size() > 1 ? "," : "", Json(tensor.info.name).dump(),
                      ":{\"dtype\":\"", std::string(DTypeName(tensor.info.dtype)),
                      "\",\"shape\":", Json(tensor.info.shape).dump(), ",\"data_offsets\":[",
                      tensor.begin, ",", tensor.end, "]}");
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("tensor name or metadata: ", error.what()));
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  if (static_cast<int64_t>(json.size()) > kHeaderLimit) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors header: got ", json.size(),
                                                   " bytes, expected at most ", kHeaderLimit));
  }
  std::string length;
  for (int i = 0; i < kLengthBytes; ++i) length += static_cast<char>(json.size() >> (8 * i));
  return length + json;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view file,
                                                         const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string_view text, FindJson(file, path));
  if (text.substr(0, 1) != "{") {
    return CorruptFile(path, {"header", kLengthBytes, "other text", "{"});
  }
  SafetensorsHeader header;
  try {
    header = HeaderFromJson(text);
  } catch (const PartOfAByte& error) {
    return absl::UnimplementedError(absl::StrCat(path.string(), ": ", error.what()));
  } catch (const std::exception& error) {
    return CorruptFile(path, {"header", kLengthBytes, error.what(), "a safetensors header"});
  }
  header.data_offset = kLengthBytes + static_cast<int64_t>(text.size());
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const PlacedTensor& a, const PlacedTensor& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  RETURN_IF_ERROR(
      CheckTiling(header, static_cast<int64_t>(file.size()) - header.data_offset, path));
  return header;
}

}  // namespace braid
