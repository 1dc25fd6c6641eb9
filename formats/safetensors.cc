#include "formats/safetensors.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written without conversion");

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::filesystem::path& path, std::vector<TensorInfo> layout,
    std::map<std::string, std::string> metadata) {
  metadata.emplace("format", "pt");
  ASSIGN_OR_RETURN(const std::vector<PlacedTensor> placed, PlaceTensors(std::move(layout)));
  ASSIGN_OR_RETURN(const std::string header, FormatSafetensorsHeader(placed, metadata));
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(header));
  RETURN_IF_ERROR(file->Extend(placed.empty() ? 0 : placed.back().end));
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(std::move(file)));
  const int64_t base = static_cast<int64_t>(header.size());
  for (const PlacedTensor& tensor : placed) {
    writer->ranges_[tensor.info.name] = {base + tensor.begin, base + tensor.end};
  }
  return writer;
}

absl::Status SafetensorsWriter::Write(const std::string& name, std::string_view bytes) {
  const auto found = ranges_.find(name);
  if (found == ranges_.end()) {
    return absl::NotFoundError(
        absl::StrCat(file_->path().string(), ": no tensor '", name, "' in the layout"));
  }
  Range& range = found->second;
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size > range.end - range.next) {
    return absl::OutOfRangeError(absl::StrCat(file_->path().string(), ": tensor '", name, "': got ",
                                              size, " bytes, expected at most ",
                                              range.end - range.next, " more"));
  }
  RETURN_IF_ERROR(file_->Overwrite(range.next, bytes));
  range.next += size;
  return absl::OkStatus();
}

absl::StatusOr<FileSummary> SafetensorsWriter::Commit() {
  for (const auto& [name, range] : ranges_) {
    if (range.next == range.end) continue;
    return absl::FailedPreconditionError(absl::StrCat(file_->path().string(), ": tensor '", name,
                                                      "' lacks ", range.end - range.next,
                                                      " bytes; Write() them before Commit()"));
  }
  return file_->Commit();
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(file.file_.bytes(), path));
  const std::string_view data = file.file_.bytes().substr(header.data_offset);
  for (PlacedTensor& tensor : header.tensors) {
    file.index_[tensor.info.name] = file.tensors_.size();
    file.bytes_.push_back(data.substr(tensor.begin, tensor.end - tensor.begin));
    file.tensors_.push_back(std::move(tensor.info));
  }
  file.metadata_ = std::move(header.metadata);
  return file;
}

const TensorInfo* SafetensorsFile::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::StatusOr<std::string_view> SafetensorsFile::Bytes(const std::string& name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return bytes_[found->second];
  return absl::NotFoundError(absl::StrCat(path_.string(), ": no tensor '", name, "' among its ",
                                          tensors_.size(), " tensors"));
}

absl::StatusOr<std::span<const float>> SafetensorsFile::Float(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(name));
  const DType dtype = Find(name)->dtype;
  if (dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(path_.string(), ": tensor '", name, "': got ",
                                                   std::string(DTypeName(dtype)),
                                                   ", expected F32"));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_.string(), ": tensor '", name,
                     "' is not aligned to 4 bytes. Save the file again with a padded header"));
  }
  return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
}

}  // namespace braid
