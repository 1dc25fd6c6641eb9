// The header of a safetensors file: names, element types, shapes and byte ranges as JSON. Pure
// functions of text; no file access.
#ifndef BRAID_FORMATS_SAFETENSORS_HEADER_H_
#define BRAID_FORMATS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kC64,
};

// Returns the size of an element in bytes.
int64_t DTypeBytes(DType dtype);
// Returns the name in files, such as "F32".
std::string_view DTypeName(DType dtype);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};  // row-major; {} is a scalar

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// Returns the size of the tensor in bytes; INVALID_ARGUMENT for a negative dimension or overflow.
absl::StatusOr<int64_t> TensorBytes(const TensorInfo& tensor);

// A tensor and its bytes [begin, end) in the data section.
struct PlacedTensor {
  TensorInfo info;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<PlacedTensor> tensors;  // by offset
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // bytes of the file before the data section
};

// Places tensors without gaps by descending element size, then by name, so that each is aligned to
// its element size. INVALID_ARGUMENT for a repeated or reserved name or an invalid shape.
absl::StatusOr<std::vector<PlacedTensor>> PlaceTensors(std::vector<TensorInfo> tensors);

// Returns the bytes before the data section: length, JSON, spaces up to a multiple of 8.
// INVALID_ARGUMENT for text that is not UTF-8 or a header over 100 MB.
absl::StatusOr<std::string> FormatSafetensorsHeader(
    const std::vector<PlacedTensor>& tensors, const std::map<std::string, std::string>& metadata);

// Parses the header at the start of `file`, which is the whole file: its length is checked too.
// `path` is for messages. DATA_LOSS if it is malformed, UNIMPLEMENTED for element types of 4 or
// 6 bits.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view file,
                                                         const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_FORMATS_SAFETENSORS_HEADER_H_
