// One record of a task's file, as JSON whatever the format of the file.
#ifndef BRAID_EVALUATION_TASKS_TASK_RECORD_H_
#define BRAID_EVALUATION_TASKS_TASK_RECORD_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace braid {

struct TaskRecord {
  // A JSON object. Numbers and booleans are read as the text that JSON writes for them.
  nlohmann::json fields;
  // Source of the record: "DIR/piqa/valid.jsonl:12".
  std::string where;
};

// Returns InvalidArgument: "WHERE: MESSAGE".
absl::Status RecordError(const TaskRecord& record, absl::string_view message);

// Returns the value at a path such as "question.stem" or "question.choices[].text" (a list with one
// element per choice). InvalidArgument names the record, the missing part, and the fields that
// exist.
absl::StatusOr<nlohmann::json> FindField(const TaskRecord& record, absl::string_view path);

// Returns the value as one text; InvalidArgument for a list, an object or null.
absl::StatusOr<std::string> FieldText(const TaskRecord& record, absl::string_view path);

// Returns the value as a list of texts; a single text gives a list of one.
absl::StatusOr<std::vector<std::string>> FieldTexts(const TaskRecord& record,
                                                    absl::string_view path);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_RECORD_H_
