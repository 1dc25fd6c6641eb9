// Computed fields of a task's records: proto TaskField.
#ifndef BRAID_EVALUATION_TASKS_FIELD_RULE_H_
#define BRAID_EVALUATION_TASKS_FIELD_RULE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "braid/v1/task.pb.h"
#include "evaluation/tasks/task_record.h"
#include "evaluation/tasks/text_template.h"

namespace re2 {
class RE2;
}

namespace braid {

class FieldRule {
 public:
  // Compiles a rule. InvalidArgument, naming `what`, for a malformed template or pattern.
  static absl::StatusOr<FieldRule> Create(const v1::TaskField& field, absl::string_view what);

  // Sets the field of `record`. Returns false when the record is to be skipped.
  absl::StatusOr<bool> Apply(TaskRecord* record) const;

 private:
  using Pattern = std::shared_ptr<const re2::RE2>;

  absl::StatusOr<std::vector<std::string>> Source(const TaskRecord& record, bool* is_list) const;
  absl::Status Edit(const TaskRecord& record, std::string* text) const;
  absl::StatusOr<bool> Rename(const TaskRecord& record, std::string* text) const;

  v1::TaskField field_;
  TextTemplate text_;
  Pattern match_;
  Pattern split_;
  std::vector<std::pair<Pattern, std::string>> replace_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_FIELD_RULE_H_
