// Where supervised records come from, and their files.
#ifndef BRAID_PIPELINE_SUPERVISED_RECORD_SOURCES_H_
#define BRAID_PIPELINE_SUPERVISED_RECORD_SOURCES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/supervised/supervised_record.h"

namespace braid {

// The domain of held-out examples whose source names no other.
inline constexpr char kValidationDomain[] = "validation";

// A source of records.
struct RecordSource {
  std::string path;
  std::string format;  // a name of RecordFormats(), or "task NAME"
  int64_t num_records = 0;
  // How often a pass over the data reads each of its examples.
  double weight = 1;
  // The domain of its held-out examples, whose losses are reported apart.
  std::string domain = kValidationDomain;
  // For a task without a training file: its name, and the share of its examples that the records
  // are (evaluation/tasks/training_share.h).
  std::string shared_task = {};
  double task_share = 0;
};

struct RecordSet {
  std::vector<SupervisedRecord> records;
  std::vector<RejectedRecord> rejected;
  std::vector<RecordSource> sources;
  // Places of records of a task whose text is also that of an example it is evaluated on.
  std::vector<std::string> evaluated = {};
};

// Appends the records and sources of `more`.
void AppendRecords(RecordSet more, RecordSet* set);

// Reads JSON and JSON lines files, also compressed (.gz, .zst). Each file has records of one
// format: `format`, or, if that is empty, the one that fits its first record. `fields` renames the
// parts of records. Errors: those of FindRecordFormat, ForEachJsonObject, ConvertRecord and
// TextSource; INVALID_ARGUMENT for a file without records, one that is named twice, damaged
// compressed data, and a renamed part that the format of no file has.
absl::StatusOr<RecordSet> ReadRecordFiles(std::span<const std::string> paths,
                                          const std::string& format,
                                          const std::map<std::string, std::string>& fields);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_RECORD_SOURCES_H_
