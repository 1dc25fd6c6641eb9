#include "formats/parquet/parquet_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/client_file.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr int64_t kTrailerBytes = 8;  // length of the footer, magic
// It takes up to 40 times as much memory when it is read.
constexpr int64_t kMostFooterBytes = 64 << 20;

absl::Status AtPath(const std::filesystem::path& path, const absl::Status& status) {
  return {status.code(), absl::StrCat(path.string(), ": ", status.message())};
}

absl::StatusOr<ParquetFooter> ReadFooter(const ParquetBytes& bytes, int64_t size) {
  const auto not_parquet = [](const std::string& got) {
    return absl::InvalidArgumentError(absl::StrCat("got ", got, ", expected a Parquet file"));
  };
  const auto magic_size = static_cast<int64_t>(kMagic.size());
  if (size < magic_size + kTrailerBytes) return not_parquet(absl::StrCat(size, " bytes"));
  ASSIGN_OR_RETURN(const std::string head, bytes(0, magic_size));
  ASSIGN_OR_RETURN(const std::string trailer, bytes(size - kTrailerBytes, kTrailerBytes));
  if (trailer.ends_with(kEncryptedMagic)) return absl::UnimplementedError("the file is encrypted");
  if (head != kMagic) return not_parquet("a file of another kind");
  if (!trailer.ends_with(kMagic)) {
    return absl::DataLossError("the file is cut off: it does not end with PAR1");
  }
  uint32_t footer_size = 0;
  std::memcpy(&footer_size, trailer.data(), sizeof(footer_size));
  const int64_t end = size - kTrailerBytes;
  if (footer_size > end - magic_size) {
    return absl::DataLossError(absl::StrCat("bad footer: its length is ", footer_size));
  }
  if (footer_size > kMostFooterBytes) {
    return absl::UnimplementedError(absl::StrCat("its footer has ", footer_size,
                                                 " bytes, expected at most ", kMostFooterBytes));
  }
  ASSIGN_OR_RETURN(const std::string footer, bytes(end - footer_size, footer_size));
  absl::StatusOr<ParquetFooter> parsed = ParseParquetFooter(footer);
  if (absl::IsInvalidArgument(parsed.status())) {
    return absl::DataLossError(parsed.status().message());
  }
  return parsed;
}

// Pages of two row groups must not be the same bytes, or a small file could hold any number of
// rows.
absl::Status CheckChunks(const ParquetFooter& footer, int64_t size) {
  for (size_t c = 0; c < footer.columns.size(); ++c) {
    int64_t left = size;
    for (size_t group = 0; group < footer.row_groups.size(); ++group) {
      left -= std::min(footer.row_groups[group].chunks[c].size, left + 1);
      if (left >= 0) continue;
      return absl::DataLossError(absl::StrCat("bad footer: the pages of column \"",
                                              footer.columns[c].name, "\" up to row group ", group,
                                              " have more bytes than the file, ", size));
    }
  }
  return absl::OkStatus();
}

bool IsReadable(const ParquetColumn& column) {
  const bool number = column.type == ParquetType::kFloat || column.type == ParquetType::kDouble ||
                      column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64;
  if (column.is_decimal) return false;
  if (column.max_repetition_level == 1) return number;
  return column.max_repetition_level == 0 && column.type != ParquetType::kInt96;
}

}  // namespace

absl::StatusOr<ParquetReader> ParquetReader::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ClientFile> file, ClientFile::Open(path));
  const int64_t size = file->size();
  return FromBytes([file = std::move(file)](int64_t offset,
                                            int64_t count) { return file->ReadAt(offset, count); },
                   size, path);
}

absl::StatusOr<ParquetReader> ParquetReader::FromBytes(ParquetBytes bytes, int64_t size,
                                                       const std::filesystem::path& path) {
  absl::StatusOr<ParquetFooter> footer = ReadFooter(bytes, size);
  if (!footer.ok()) return AtPath(path, footer.status());
  if (const absl::Status fits = CheckChunks(*footer, size); !fits.ok()) return AtPath(path, fits);
  return ParquetReader(path, std::move(bytes), size, *std::move(footer));
}

ParquetReader::ParquetReader(std::filesystem::path path, ParquetBytes bytes, int64_t size,
                             ParquetFooter footer)
    : path_(std::move(path)),
      bytes_(std::make_unique<const ParquetBytes>(std::move(bytes))),
      size_(size),
      footer_(std::move(footer)) {}

absl::Status ParquetReader::Select(const std::vector<std::string>& names) {
  std::vector<size_t> selected;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(footer_.columns, name, &ParquetColumn::name);
    if (found == footer_.columns.end()) {
      std::vector<std::string> all;
      for (const ParquetColumn& column : footer_.columns) all.push_back(column.name);
      return absl::InvalidArgumentError(
          absl::StrCat(path_.string(), ": no column \"", name, "\"", DidYouMean(name, all)));
    }
    if (!IsReadable(*found)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_.string(), ": column \"", name,
                       "\" is neither text nor a number nor a list of numbers"));
    }
    selected.push_back(static_cast<size_t>(found - footer_.columns.begin()));
  }
  selected_ = std::move(selected);
  cells_.assign(selected_.size(), {});
  limits_.assign(selected_.size(), std::nullopt);
  return Seek(0);
}

void ParquetReader::LimitExpansion(size_t i, int64_t ratio, int64_t spare_bytes) {
  limits_[i] = Expansion{ratio, spare_bytes};
}

int64_t ParquetReader::MaxExpandedBytes(size_t i, const ParquetChunk& chunk) const {
  const double share = static_cast<double>(chunk.size) / static_cast<double>(size_);
  const double most = static_cast<double>(chunk.size) * static_cast<double>(limits_[i]->ratio) +
                      share * static_cast<double>(limits_[i]->spare_bytes);
  return static_cast<int64_t>(std::min(most, 1e18));
}

absl::Status ParquetReader::Seek(int64_t row) {
  BRAID_CHECK(row >= 0 && row <= num_rows()) << row << " of " << num_rows();
  readers_.clear();
  next_group_ = 0;
  row_ = group_end_ = bytes_read_ = 0;
  while (next_group_ < footer_.row_groups.size() &&
         row >= group_end_ + footer_.row_groups[next_group_].num_rows) {
    group_end_ += footer_.row_groups[next_group_].num_rows;
    CountGroup(footer_.row_groups[next_group_++]);
  }
  row_ = group_end_;
  if (row == row_) return absl::OkStatus();
  RETURN_IF_ERROR(OpenGroup());
  for (size_t i = 0; i < readers_.size(); ++i) {
    RETURN_IF_ERROR(InColumn(i, readers_[i].Skip(row - row_)));
  }
  row_ = row;
  return absl::OkStatus();
}

void ParquetReader::CountGroup(const ParquetRowGroup& group) {
  for (const size_t c : selected_) bytes_read_ += group.chunks[c].size;
}

const ParquetRowGroup* ParquetReader::group_at_row() const {
  const bool at_start = row_ == group_end_ && next_group_ < footer_.row_groups.size();
  return at_start ? &footer_.row_groups[next_group_] : nullptr;
}

void ParquetReader::SkipGroup() {
  const ParquetRowGroup* const group = group_at_row();
  BRAID_CHECK(group != nullptr) << row_ << " of " << num_rows();
  if (!readers_.empty()) CountGroup(footer_.row_groups[next_group_ - 1]);
  readers_.clear();
  CountGroup(*group);
  ++next_group_;
  row_ = group_end_ = row_ + group->num_rows;
}

int64_t ParquetReader::SkipDamagedGroup() {
  const int64_t begin = row_;
  if (group_at_row() != nullptr) {
    // The group could not be opened; Next() has counted the one before.
    readers_.clear();
    SkipGroup();
  } else {
    row_ = group_end_;
  }
  return row_ - begin;
}

// Starts reading the row group that begins at the current row.
absl::Status ParquetReader::OpenGroup() {
  readers_.clear();
  const ParquetRowGroup& group = footer_.row_groups[next_group_];
  for (size_t i = 0; i < selected_.size(); ++i) {
    const ParquetChunk& chunk = group.chunks[selected_[i]];
    if (chunk.encrypted) return InColumn(i, absl::UnimplementedError("it is encrypted"));
    if (chunk.in_another_file) {
      return InColumn(i, absl::UnimplementedError("its values are in another file"));
    }
    if (chunk.offset > size_ || chunk.size > size_ - chunk.offset) {
      return InColumn(i, absl::DataLossError("its pages lie beyond the end of the file"));
    }
    readers_.emplace_back(footer_.columns[selected_[i]], chunk, *bytes_);
    if (limits_[i]) readers_.back().LimitExpansion(MaxExpandedBytes(i, chunk));
  }
  group_end_ = row_ + group.num_rows;
  ++next_group_;
  return absl::OkStatus();
}

absl::Status ParquetReader::InColumn(size_t i, const absl::Status& status) const {
  if (status.ok()) return status;
  // OpenGroup() counts a row group after its checks.
  const size_t group = next_group_ - (readers_.size() == selected_.size() ? 1 : 0);
  return {status.code(),
          absl::StrCat(path_.string(), ", column \"", selected(i).name, "\", row group ", group,
                       ", row ", row_, ": ", status.message())};
}

absl::Status ParquetReader::Next() {
  while (row_ == group_end_ || readers_.size() != selected_.size()) {
    BRAID_CHECK(next_group_ < footer_.row_groups.size()) << row_ << " of " << num_rows();
    if (!readers_.empty()) CountGroup(footer_.row_groups[next_group_ - 1]);
    RETURN_IF_ERROR(OpenGroup());
  }
  for (size_t i = 0; i < readers_.size(); ++i) {
    RETURN_IF_ERROR(InColumn(i, readers_[i].Next(&cells_[i])));
  }
  ++row_;
  return absl::OkStatus();
}

}  // namespace braid
