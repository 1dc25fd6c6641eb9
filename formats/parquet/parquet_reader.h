// Reading of Parquet files (github.com/apache/parquet-format 2.10).
//
// Scalar columns and lists of numbers are read, data pages of both versions, with any encoding but
// BIT_PACKED, compressed with snappy, gzip, brotli, zstd, LZ4_RAW or not; checksums of pages are
// verified where a file has them. What is not supported is refused by name.
//
//   ASSIGN_OR_RETURN(ParquetReader reader, ParquetReader::Open("books.parquet"));
//   RETURN_IF_ERROR(reader.Select({"text", "id"}));
//   while (reader.row() < reader.num_rows()) {
//     RETURN_IF_ERROR(reader.Next());
//     Use(reader.cell(0).bytes);
//   }
#ifndef BRAID_FORMATS_PARQUET_PARQUET_READER_H_
#define BRAID_FORMATS_PARQUET_PARQUET_READER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/column_reader.h"
#include "formats/parquet/parquet_metadata.h"

namespace braid {

// Memory: the footer, and a page and a dictionary of each selected column. Not thread-safe.
class ParquetReader {
 public:
  // Reads the footer. Errors name the file: those of the file system; INVALID_ARGUMENT for a file
  // that is not Parquet, DATA_LOSS for one that is damaged, UNIMPLEMENTED for an encrypted one.
  static absl::StatusOr<ParquetReader> Open(const std::filesystem::path& path);
  // Does the same with `size` bytes that `bytes` returns; `path` is for messages.
  static absl::StatusOr<ParquetReader> FromBytes(ParquetBytes bytes, int64_t size,
                                                 const std::filesystem::path& path);

  int64_t num_rows() const { return footer_.num_rows; }
  const std::vector<ParquetColumn>& columns() const { return footer_.columns; }

  // Selects the columns to read, by name, from the first row. INVALID_ARGUMENT for a column that
  // does not exist or that is neither scalar nor a list of numbers.
  absl::Status Select(const std::vector<std::string>& names);

  // Limits the text or list elements of selected column number `i` in each row group to `ratio`
  // bytes for each byte that its pages have in the file, plus their share of `spare_bytes` for a
  // whole file; pages beyond that are RESOURCE_EXHAUSTED.
  void LimitExpansion(size_t i, int64_t ratio, int64_t spare_bytes);

  // Moves to a row, 0 to num_rows().
  absl::Status Seek(int64_t row);

  // Reads row row() and advances. Requires: row() < num_rows(). DATA_LOSS for damaged pages, with
  // the file, the column, the row group and the row.
  absl::Status Next();

  // Returns the row group that starts at row() if none of its rows was read, otherwise null. Its
  // chunks are in the order of columns().
  const ParquetRowGroup* group_at_row() const;
  // Moves to the row after that group without reading it. Requires: group_at_row() is not null.
  void SkipGroup();
  // Moves to the row after the row group in which Next() failed; returns how many rows, from row()
  // on, that leaves out. Requires: row() < num_rows().
  int64_t SkipDamagedGroup();
  // Returns the index in columns() of selected column number `i`.
  size_t selected_index(size_t i) const { return selected_[i]; }

  // The row to be read next.
  int64_t row() const { return row_; }
  // The value of the selected column number `i` in the row read last.
  const ParquetCell& cell(size_t i) const { return cells_[i]; }
  const ParquetColumn& selected(size_t i) const { return footer_.columns[selected_[i]]; }
  // The bytes of the row groups before that of row(), of those selected.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  ParquetReader(std::filesystem::path path, ParquetBytes bytes, int64_t size, ParquetFooter footer);
  absl::Status OpenGroup();
  int64_t MaxExpandedBytes(size_t i, const ParquetChunk& chunk) const;
  void CountGroup(const ParquetRowGroup& group);
  absl::Status InColumn(size_t i, const absl::Status& status) const;

  std::filesystem::path path_;
  // This is on the heap, where the column readers find it after a move.
  std::unique_ptr<const ParquetBytes> bytes_;
  int64_t size_;
  ParquetFooter footer_;
  std::vector<size_t> selected_;
  struct Expansion {
    int64_t ratio, spare_bytes;
  };
  std::vector<std::optional<Expansion>> limits_;  // by number of the selected column
  std::vector<ParquetCell> cells_;
  std::vector<ParquetColumnReader> readers_;  // one per selected column, in the current row group
  size_t next_group_ = 0;
  int64_t group_end_ = 0;  // first row after the current row group
  int64_t row_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_PARQUET_READER_H_
