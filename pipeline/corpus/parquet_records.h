// The rows of a Parquet file as records of a corpus.
#ifndef BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/parquet_reader.h"

namespace braid {

struct ParquetRecord {
  int64_t row = 0;
  std::optional<std::string_view> text;  // valid until the next record; nullopt for null
  std::optional<std::string> id;         // nullopt for null, an empty text and an absent column
  std::optional<std::string> domain;
};

// Not thread-safe.
class ParquetRecords {
 public:
  // Opens a file and selects the first of the columns `text` that exists, which must hold text, and
  // `id` and `domain`, as far as they exist. Nested columns are named by their path
  // ("meta.source"). Errors: those of ParquetReader::Open; NOT_FOUND, with the names of all
  // columns, without a text column.
  static absl::StatusOr<std::unique_ptr<ParquetRecords>> Open(const std::filesystem::path& path,
                                                              std::span<const std::string> text,
                                                              const std::string& id,
                                                              const std::string& domain);

  const std::string& text_column() const { return text_column_; }

  // The row to be read next, 0 to num_rows().
  int64_t row() const { return reader_.row(); }
  int64_t num_rows() const { return reader_.num_rows(); }
  absl::Status Seek(int64_t row) { return reader_.Seek(row); }
  int64_t bytes_read() const { return reader_.bytes_read(); }

  // Reads a record; returns false at the end. Errors: those of ParquetReader::Next.
  absl::StatusOr<bool> Next(ParquetRecord* record);

 private:
  explicit ParquetRecords(ParquetReader reader) : reader_(std::move(reader)) {}
  std::optional<std::string> Label(int column) const;

  ParquetReader reader_;
  std::string text_column_;
  // Numbers of the selected columns; -1 for one that does not exist. The text is number 0.
  int id_ = -1, domain_ = -1;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_
