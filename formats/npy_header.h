// The header of a NumPy .npy file: magic, version, and a Python dict with element type, order and
// shape. Pure functions of text; no file access.
#ifndef BRAID_FORMATS_NPY_HEADER_H_
#define BRAID_FORMATS_NPY_HEADER_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

struct NpyHeader {
  std::string descr;  // "<f4", "|u1", ...
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  // bytes before the first element
};

// Returns a version 1.0 header (2.0 if it is longer than 65535 bytes), padded as numpy.save does so
// that the leading dimension can grow to 20 digits in place: headers that differ only in the
// leading dimension have equal lengths, which are multiples of 64.
std::string FormatNpyHeader(std::string_view descr, std::span<const int64_t> shape);

// Parses the header at the start of `file`; `path` is for messages. Accepts versions 1 to 3, keys
// in any order and any padding. DATA_LOSS if it is malformed.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file, const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_FORMATS_NPY_HEADER_H_
