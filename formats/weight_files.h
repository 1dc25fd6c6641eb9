// The tensors of a Hugging Face model directory: model.safetensors, or
// model-00001-of-0000N.safetensors with model.safetensors.index.json.
//
//   ASSIGN_OR_RETURN(const WeightFiles weights, WeightFiles::Open(directory));
//   RETURN_IF_ERROR(weights.Read("lm_head.weight", values));
#ifndef BRAID_FORMATS_WEIGHT_FILES_H_
#define BRAID_FORMATS_WEIGHT_FILES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/safetensors.h"

namespace braid {

// Reads the tensors. Thread-safe.
class WeightFiles {
 public:
  // Opens every file and checks it against its header and the index. NOT_FOUND if there are no
  // weights; INVALID_ARGUMENT for an index that is malformed, names files outside of the directory
  // or disagrees with them (a tensor missing, or in two files); DATA_LOSS for a damaged file.
  static absl::StatusOr<WeightFiles> Open(const std::filesystem::path& directory);

  // Opens one file of any name. DATA_LOSS for a damaged file.
  static absl::StatusOr<WeightFiles> OpenOne(const std::filesystem::path& file);

  // Returns the names of all tensors, sorted.
  std::vector<std::string> names() const;
  // Returns the tensor with that name; nullptr if there is none.
  const TensorInfo* Find(const std::string& name) const;

  // Reads the row-major values of a tensor as floats. `values` must have as many elements as the
  // tensor. INVALID_ARGUMENT for element types other than F32, BF16 and F16, and for a value that
  // is not finite.
  absl::Status Read(const std::string& name, std::span<float> values) const;
  // Does the same for the elements first .. first + values.size() - 1, which the tensor must have.
  // Releases the memory of the file that they were read from.
  absl::Status ReadRange(const std::string& name, size_t first, std::span<float> values) const;
  // Returns the bytes of a tensor as in the file: row-major, little-endian, of its own element
  // type; valid while this object lives. NOT_FOUND.
  absl::StatusOr<std::string_view> Bytes(const std::string& name) const;

 private:
  absl::Status OpenFile(const std::filesystem::path& path);
  absl::Status CheckIndex(const std::filesystem::path& index,
                          const std::map<std::string, std::string>& weight_map) const;

  std::vector<std::filesystem::path> paths_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // by tensor
};

// Divides consecutive tensors into files of at most `max_file_bytes`; a larger tensor gets a file
// of its own. Returns the number of tensors of each file.
std::vector<size_t> PlanWeightFiles(std::span<const int64_t> tensor_bytes, int64_t max_file_bytes);

struct WeightsToWrite {
  // Name, shape and element type of each tensor.
  std::vector<TensorInfo> tensors;
  // Returns the values of a tensor, which must stay valid until the next call.
  std::function<absl::StatusOr<std::span<const float>>(const TensorInfo&)> values;
  int64_t max_file_bytes = 0;
};

// Writes the files, and the index if there are several. The same arguments give the same bytes.
// Errors name the tensor: OUT_OF_RANGE for a value that is too large for F16 or BF16, DATA_LOSS for
// one that is not finite.
absl::StatusOr<std::vector<FileSummary>> WriteWeightFiles(const std::filesystem::path& directory,
                                                          const WeightsToWrite& weights);

}  // namespace braid

#endif  // BRAID_FORMATS_WEIGHT_FILES_H_
