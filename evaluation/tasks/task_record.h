// One record of a task's file, as JSON whatever the file's format was.
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
  // An object. Numbers and truth values count as the text JSON writes for them.
  nlohmann::json fields;
  // "DIR/piqa/valid.jsonl:12".
  std::string where;
};

// InvalidArgument: "WHERE: MESSAGE".
absl::Status RecordError(const TaskRecord& record, absl::string_view message);

// The value at a path such as "question.stem" or "question.choices[].text" (a list of one for
// each element). InvalidArgument names the record, the part that is missing, and the fields
// that are there.
absl::StatusOr<nlohmann::json> FindField(const TaskRecord& record, absl::string_view path);

// As one text; InvalidArgument for a list, an object or null.
absl::StatusOr<std::string> FieldText(const TaskRecord& record, absl::string_view path);

// As a list of texts; one text is a list of one.
absl::StatusOr<std::vector<std::string>> FieldTexts(const TaskRecord& record,
                                                    absl::string_view path);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_RECORD_H_
