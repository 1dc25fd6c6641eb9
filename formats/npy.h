// NumPy .npy arrays: little-endian, row-major, memory-mapped for reading, streamed for writing.
// numpy.load(path, mmap_mode='r') opens the files; see docs/formats/npy.md.
//
//   ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Create(path, {dimension}));
//   for (...) RETURN_IF_ERROR(writer.AppendRows(batch));   // shape grows to [n, dimension]
//   ASSIGN_OR_RETURN(FileSummary summary, writer.Commit());
//
//   ASSIGN_OR_RETURN(auto vectors, NpyArray<float>::Open(path));
//   std::span<const float> third = vectors.row(2);
//
// T is one of float, double, int32_t, int64_t, uint8_t, uint16_t, uint32_t.
#ifndef BRAID_FORMATS_NPY_H_
#define BRAID_FORMATS_NPY_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"

namespace braid {

// Returns NumPy's name of an element type, such as "<f4".
template <class T>
std::string_view NpyDescr();
template <>
std::string_view NpyDescr<float>();
template <>
std::string_view NpyDescr<double>();
template <>
std::string_view NpyDescr<int32_t>();
template <>
std::string_view NpyDescr<int64_t>();
template <>
std::string_view NpyDescr<uint8_t>();
template <>
std::string_view NpyDescr<uint16_t>();
template <>
std::string_view NpyDescr<uint32_t>();

// Writes an array row by row. Not thread-safe.
template <class T>
class NpyWriter {
 public:
  // Creates a file. `row_shape` is the shape without its leading dimension: {} gives a 1-D array of
  // scalars, {d} a matrix. INVALID_ARGUMENT for a dimension that is not positive.
  static absl::StatusOr<NpyWriter> Create(const std::filesystem::path& path,
                                          std::vector<int64_t> row_shape);

  // Continues after the rows that Sync() made durable; see AtomicFile::Resume().
  static absl::StatusOr<NpyWriter> Resume(const std::filesystem::path& path,
                                          std::vector<int64_t> row_shape,
                                          const DurablePrefixes& synced);

  // Appends rows. INVALID_ARGUMENT unless `values` is a whole number of rows.
  absl::Status AppendRows(std::span<const T> values);

  // Makes the rows so far durable; see AtomicFile::Sync().
  absl::Status Sync(DurablePrefixes* synced) { return file_->Sync(synced); }

  // Writes the final leading dimension and publishes the file.
  absl::StatusOr<FileSummary> Commit();

  int64_t num_rows() const { return num_rows_; }

 private:
  NpyWriter(std::unique_ptr<AtomicFile> file, std::vector<int64_t> row_shape, int64_t row_size);
  std::vector<int64_t> shape() const;

  std::unique_ptr<AtomicFile> file_;
  std::vector<int64_t> row_shape_;
  int64_t row_size_;  // elements
  int64_t num_rows_ = 0;
};

// A memory-mapped array. Thread-safe; values stay valid while the array, or the one it was moved
// to, lives.
template <class T>
class NpyArray {
 public:
  // Errors: DATA_LOSS if the file is malformed or has the wrong length; INVALID_ARGUMENT for
  // another element type, and for big-endian or Fortran-order data.
  static absl::StatusOr<NpyArray> Open(const std::filesystem::path& path);

  std::span<const int64_t> shape() const { return shape_; }
  std::span<const T> values() const { return values_; }  // row-major
  // Returns the leading dimension; 1 for a scalar.
  int64_t num_rows() const { return shape_.empty() ? 1 : shape_[0]; }
  // Returns the number of elements in a row.
  int64_t row_size() const { return row_size_; }
  // Requires 0 <= i < num_rows().
  std::span<const T> row(int64_t i) const;

 private:
  MappedFile file_;
  std::vector<int64_t> shape_;
  std::span<const T> values_;
  int64_t row_size_ = 1;
};

// Writes a whole array of any shape. Sets `summary` unless it is null. INVALID_ARGUMENT if the
// number of values does not match the shape.
template <class T>
absl::Status WriteNpy(const std::filesystem::path& path, std::span<const int64_t> shape,
                      std::span<const T> values, FileSummary* summary = nullptr);

}  // namespace braid

#endif  // BRAID_FORMATS_NPY_H_
