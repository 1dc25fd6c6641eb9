// Hugging Face safetensors files: named tensors, memory-mapped for reading, written in any order
// and in blocks. See docs/formats/safetensors.md.
//
//   ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(
//       path, {{"w", DType::kF32, {2, 3}}}, {{"step", "480"}}));
//   RETURN_IF_ERROR(writer->Write("w", AsBytes(std::span<const float>(w))));
//   ASSIGN_OR_RETURN(FileSummary summary, writer->Commit());
//
//   ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
//   ASSIGN_OR_RETURN(std::span<const float> w, file.Float("w"));
#ifndef BRAID_FORMATS_SAFETENSORS_H_
#define BRAID_FORMATS_SAFETENSORS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "formats/safetensors_header.h"

namespace braid {

// Returns the memory of `values` as bytes, for Write().
template <class T>
std::string_view AsBytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Writes one file. Not thread-safe.
class SafetensorsWriter {
 public:
  // Creates the file and reserves its disk space. `metadata` is added to {"format": "pt"}, which
  // Hugging Face loaders require. INVALID_ARGUMENT for a repeated or reserved name, an invalid
  // shape, or text that is not UTF-8.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::filesystem::path& path, std::vector<TensorInfo> layout,
      std::map<std::string, std::string> metadata);

  // Appends to tensor `name`: all of it or the next block. Tensors may be written in any order and
  // interleaved. NOT_FOUND for an unknown name, OUT_OF_RANGE for more bytes than the tensor has.
  absl::Status Write(const std::string& name, std::string_view bytes);

  // Publishes the file. FAILED_PRECONDITION, naming the tensor, if one is incomplete.
  absl::StatusOr<FileSummary> Commit();

 private:
  struct Range {
    int64_t next;  // file offset of the next byte to write
    int64_t end;
  };
  explicit SafetensorsWriter(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
  std::map<std::string, Range> ranges_;
};

// A memory-mapped file. Thread-safe; what it returns stays valid while it, or the object it was
// moved to, lives. Requires: no process truncates the file meanwhile (base/mapped_file.h).
class SafetensorsFile {
 public:
  // Checks the header for consistency and against the file's length. DATA_LOSS for holes, overlaps,
  // sizes that do not match shapes, repeated keys, and text that is not a header.
  static absl::StatusOr<SafetensorsFile> Open(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Returns the tensor with that name; nullptr if there is none.
  const TensorInfo* Find(const std::string& name) const;

  // Returns the row-major values. NOT_FOUND; INVALID_ARGUMENT if the tensor is not F32 or not
  // aligned.
  absl::StatusOr<std::span<const float>> Float(const std::string& name) const;
  // Returns the little-endian bytes of a tensor of any type. NOT_FOUND.
  absl::StatusOr<std::string_view> Bytes(const std::string& name) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string_view> bytes_;  // parallel to tensors_
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_SAFETENSORS_H_
