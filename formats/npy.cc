#include "formats/npy.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/npy_header.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written without conversion");

// Returns the number of elements; INVALID_ARGUMENT if a dimension is negative or the product times
// `element_bytes` exceeds 63 bits.
absl::StatusOr<int64_t> CountElements(std::span<const int64_t> shape, int64_t element_bytes) {
  int64_t count = 1, bytes;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(count, dimension, &count)) {
      return absl::InvalidArgumentError(absl::StrCat("invalid dimension ", dimension));
    }
  }
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("too many elements: ", count));
  }
  return count;
}

template <class T>
std::string_view ByteView(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

absl::Status CheckLayout(const NpyHeader& header, std::string_view descr,
                         const std::filesystem::path& path) {
  if (header.descr != descr) {
    return UnsuitableFile(path, {"element type", 0, header.descr, std::string(descr),
                                 "Convert it with numpy's astype() and save it again"});
  }
  if (header.fortran_order && header.shape.size() > 1) {
    return UnsuitableFile(path, {"order", 0, "Fortran (column-major)", "C (row-major)",
                                 "Save numpy.ascontiguousarray(array)"});
  }
  return absl::OkStatus();
}

absl::Status CheckExtent(const NpyHeader& header, size_t file_bytes, int64_t element_bytes,
                         const std::filesystem::path& path) {
  const auto count = CountElements(header.shape, element_bytes);
  // Checks the row size even if there are no rows.
  const std::span<const int64_t> shape(header.shape);
  const auto row = CountElements(shape.empty() ? shape : shape.subspan(1), element_bytes);
  if (!count.ok() || !row.ok()) {
    return CorruptFile(path,
                       {"shape", 0, std::string((count.ok() ? row : count).status().message()),
                        "dimensions whose product fits the file"});
  }
  if (header.data_offset % element_bytes != 0) {
    return UnsuitableFile(path, {"data offset", header.data_offset, "an unaligned address",
                                 absl::StrCat("a multiple of ", element_bytes),
                                 "Load and save it with a current NumPy"});
  }
  const int64_t available = static_cast<int64_t>(file_bytes) - header.data_offset;
  if (available != *count * element_bytes) {
    return CorruptFile(path, {"data length", header.data_offset, absl::StrCat(available, " bytes"),
                              absl::StrCat(*count * element_bytes, " bytes"),
                              "The file is truncated or is not a single array"});
  }
  return absl::OkStatus();
}

}  // namespace

template <>
std::string_view NpyDescr<float>() {
  return "<f4";
}
template <>
std::string_view NpyDescr<double>() {
  return "<f8";
}
template <>
std::string_view NpyDescr<int32_t>() {
  return "<i4";
}
template <>
std::string_view NpyDescr<int64_t>() {
  return "<i8";
}
template <>
std::string_view NpyDescr<uint8_t>() {
  return "|u1";
}
template <>
std::string_view NpyDescr<uint16_t>() {
  return "<u2";
}
template <>
std::string_view NpyDescr<uint32_t>() {
  return "<u4";
}

template <class T>
NpyWriter<T>::NpyWriter(std::unique_ptr<AtomicFile> file, std::vector<int64_t> row_shape,
                        int64_t row_size)
    : file_(std::move(file)), row_shape_(std::move(row_shape)), row_size_(row_size) {}

template <class T>
std::vector<int64_t> NpyWriter<T>::shape() const {
  std::vector<int64_t> shape = {num_rows_};
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  return shape;
}

template <class T>
absl::StatusOr<NpyWriter<T>> NpyWriter<T>::Create(const std::filesystem::path& path,
                                                  std::vector<int64_t> row_shape) {
  return Resume(path, std::move(row_shape), {});
}

template <class T>
absl::StatusOr<NpyWriter<T>> NpyWriter<T>::Resume(const std::filesystem::path& path,
                                                  std::vector<int64_t> row_shape,
                                                  const DurablePrefixes& synced) {
  const auto row_size = CountElements(row_shape, sizeof(T));
  if (!row_size.ok() || *row_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": every dimension of a row must be positive, got (",
                     row_shape.empty() ? 0 : row_shape[0], row_shape.size() > 1 ? ", ...)" : ")"));
  }
  NpyWriter writer(nullptr, std::move(row_shape), *row_size);
  // Until Commit() the header declares zero rows.
  const std::string header = FormatNpyHeader(NpyDescr<T>(), writer.shape());
  ASSIGN_OR_RETURN(writer.file_, AtomicFile::Resume(path, synced, header));
  const int64_t data_bytes = writer.file_->size() - static_cast<int64_t>(header.size());
  const int64_t row_bytes = *row_size * static_cast<int64_t>(sizeof(T));
  if (data_bytes % row_bytes != 0) {
    return Unresumable(path, absl::StrCat("got ", data_bytes,
                                          " bytes of data, expected a multiple of ", row_bytes));
  }
  writer.num_rows_ = data_bytes / row_bytes;
  return writer;
}

template <class T>
absl::Status NpyWriter<T>::AppendRows(std::span<const T> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  if (size % row_size_ != 0) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path().string(), ": got ", size,
                                                   " values, expected a multiple of the row size ",
                                                   row_size_));
  }
  RETURN_IF_ERROR(file_->Append(ByteView(values)));
  num_rows_ += size / row_size_;
  return absl::OkStatus();
}

template <class T>
absl::StatusOr<FileSummary> NpyWriter<T>::Commit() {
  RETURN_IF_ERROR(file_->Overwrite(0, FormatNpyHeader(NpyDescr<T>(), shape())));
  return file_->Commit();
}

template <class T>
absl::StatusOr<NpyArray<T>> NpyArray<T>::Open(const std::filesystem::path& path) {
  NpyArray array;
  ASSIGN_OR_RETURN(array.file_, MappedFile::Open(path));
  const std::string_view bytes = array.file_.bytes();
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(bytes, path));
  RETURN_IF_ERROR(CheckLayout(header, NpyDescr<T>(), path));
  RETURN_IF_ERROR(CheckExtent(header, bytes.size(), sizeof(T), path));
  const std::string_view data = bytes.substr(header.data_offset);
  array.values_ = {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  array.shape_ = std::move(header.shape);
  for (size_t i = 1; i < array.shape_.size(); ++i) array.row_size_ *= array.shape_[i];
  return array;
}

template <class T>
std::span<const T> NpyArray<T>::row(int64_t i) const {
  BRAID_CHECK(i >= 0 && i < num_rows()) << i << " of " << num_rows();
  return values_.subspan(i * row_size_, row_size_);
}

template <class T>
absl::Status WriteNpy(const std::filesystem::path& path, std::span<const int64_t> shape,
                      std::span<const T> values, FileSummary* summary) {
  const auto count = CountElements(shape, sizeof(T));
  if (!count.ok() || *count != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": got ", values.size(), " values, expected ",
                     count.ok() ? absl::StrCat(*count) : "a possible shape"));
  }
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(FormatNpyHeader(NpyDescr<T>(), shape)));
  RETURN_IF_ERROR(file->Append(ByteView(values)));
  ASSIGN_OR_RETURN(FileSummary written, file->Commit());
  if (summary != nullptr) *summary = std::move(written);
  return absl::OkStatus();
}

#define BRAID_INSTANTIATE_NPY(T)                                                            \
  template class NpyWriter<T>;                                                              \
  template class NpyArray<T>;                                                               \
  template absl::Status WriteNpy<T>(const std::filesystem::path&, std::span<const int64_t>, \
                                    std::span<const T>, FileSummary*);
BRAID_INSTANTIATE_NPY(float)
BRAID_INSTANTIATE_NPY(double)
BRAID_INSTANTIATE_NPY(int32_t)
BRAID_INSTANTIATE_NPY(int64_t)
BRAID_INSTANTIATE_NPY(uint8_t)
BRAID_INSTANTIATE_NPY(uint16_t)
BRAID_INSTANTIATE_NPY(uint32_t)
#undef BRAID_INSTANTIATE_NPY

}  // namespace braid
