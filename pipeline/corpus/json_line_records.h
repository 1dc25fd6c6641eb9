// The lines of a JSON lines file as records.
#ifndef BRAID_PIPELINE_CORPUS_JSON_LINE_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_JSON_LINE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/corpus/json_record.h"
#include "pipeline/corpus/line_reader.h"
#include "pipeline/corpus/record_reader.h"

namespace braid {

// The text field is determined by the first record of the file that has one.
class JsonLineRecords final : public RecordReader {
 public:
  JsonLineRecords(const CorpusFile& file, const RecordSettings& settings)
      : file_(file), settings_(settings) {}

  absl::StatusOr<Record> Next(const CorpusSoFar& so_far) override;
  int64_t position() const override { return lines_ == nullptr ? 0 : lines_->offset(); }
  const std::string& text_field() const override { return text_field_; }
  absl::Status SkipTo(int64_t position, const std::string& text_field,
                      const std::function<absl::Status()>& keep_going) override;
  int64_t bytes_read() const override { return lines_ == nullptr ? 0 : lines_->bytes_read(); }

 private:
  absl::Status Open();
  absl::StatusOr<Record> Parse(const Line& line, const CorpusSoFar& so_far);
  absl::StatusOr<Record> Fields(int64_t offset, bool first);
  void FindTextField();
  absl::Status CheckFirst(int64_t offset) const;
  absl::Status IsAnArray() const;
  absl::Status MissingTextField(int64_t offset) const;
  bool Filter(Record* record);

  const CorpusFile& file_;
  const RecordSettings& settings_;
  std::unique_ptr<LineReader> lines_;
  JsonRecord json_;
  std::string text_field_;
  std::vector<float> embedding_;
  std::vector<FieldValue> values_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_JSON_LINE_RECORDS_H_
