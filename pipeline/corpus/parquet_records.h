// The rows of a Parquet file as records of a corpus.
#ifndef BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/parquet/parquet_reader.h"
#include "pipeline/corpus/record_reader.h"

namespace braid {

// Reads the first of the text columns that exists, which must hold text, and the columns for id and
// domain as far as they exist. Nested columns are named by their path ("meta.source"). The columns
// of a filter and of embeddings must exist and have its types. Row groups are passed over when
// their statistics prove that the filter keeps none of their rows. After a damaged page, reading
// continues with the next row group.
class ParquetRecords final : public RecordReader {
 public:
  ParquetRecords(const CorpusFile& file, const RecordSettings& settings)
      : file_(file), settings_(settings) {}

  absl::StatusOr<Record> Next(const CorpusSoFar& so_far) override;
  int64_t position() const override { return reader_ ? reader_->row() : 0; }
  const std::string& text_field() const override { return text_column_; }
  absl::Status SkipTo(int64_t position, const std::string& text_field,
                      const std::function<absl::Status()>& keep_going) override;
  int64_t bytes_read() const override { return reader_ ? reader_->bytes_read() : 0; }

 private:
  absl::Status Open();
  absl::StatusOr<Record> OpenFirst(bool first);
  absl::Status FindText();
  absl::Status SelectColumns();
  absl::Status CheckFilterColumns(std::vector<std::string>* selected);
  absl::Status CheckEmbeddingColumn(std::vector<std::string>* selected);
  const ParquetColumn* Find(const std::string& name) const;
  std::vector<std::string> ColumnNames() const;
  absl::StatusOr<Record> Damage(int64_t row, const absl::Status& error) const;
  std::optional<Record> TooManyRows(const ParquetRowGroup& group) const;
  absl::StatusOr<Record> ReadRow();
  absl::StatusOr<Record> LeaveGroup(const absl::Status& error);
  bool MayKeepGroup(const ParquetRowGroup& group) const;
  bool KeepsRow();
  std::optional<std::string> Label(int column) const;

  const CorpusFile& file_;
  const RecordSettings& settings_;
  std::optional<ParquetReader> reader_;
  std::string text_column_;
  // Numbers of the selected columns; -1 for one that does not exist. The text is number 0.
  int id_ = -1, domain_ = -1, embedding_ = -1;
  std::vector<size_t> filter_columns_;  // by field of the filter
  std::vector<FieldValue> values_;
  std::vector<float> vector_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_PARQUET_RECORDS_H_
