// A text file as the only record of itself.
#ifndef BRAID_PIPELINE_CORPUS_TEXT_FILE_RECORDS_H_
#define BRAID_PIPELINE_CORPUS_TEXT_FILE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/corpus/record_reader.h"

namespace braid {

// Reads the whole file in one step. All fields that a filter names are null.
class TextFileRecords final : public RecordReader {
 public:
  TextFileRecords(const CorpusFile& file, const RecordSettings& settings)
      : file_(file), settings_(settings) {}

  absl::StatusOr<Record> Next(const CorpusSoFar& so_far) override;
  int64_t position() const override { return 0; }
  const std::string& text_field() const override { return no_field_; }
  absl::Status SkipTo(int64_t position, const std::string& text_field,
                      const std::function<absl::Status()>& keep_going) override;
  int64_t bytes_read() const override { return 0; }

 private:
  const CorpusFile& file_;
  const RecordSettings& settings_;
  const std::string no_field_;
  std::string text_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_TEXT_FILE_RECORDS_H_
