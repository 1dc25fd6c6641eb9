// Specifications of tasks: the built-in ones, which are the *.textproto files of this folder
// as they were at build time, and those of users.
#ifndef BRAID_EVALUATION_TASKS_TASK_SPEC_H_
#define BRAID_EVALUATION_TASKS_TASK_SPEC_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "braid/v1/task.pb.h"

namespace braid {

// A file of this folder; the table is made by embed_tasks.cmake.
struct EmbeddedTask {
  absl::string_view file;
  absl::string_view text;
};
std::span<const EmbeddedTask> EmbeddedTasks();

// From protobuf text format, checked. InvalidArgument names `source`.
absl::StatusOr<v1::TaskSpec> ParseTaskSpec(absl::string_view text, absl::string_view source);

// Whether the specification can be used, whatever the files hold: templates and patterns are
// well formed, files lie inside the task's folder, figures fit the kind of answer.
absl::Status CheckTaskSpec(const v1::TaskSpec& spec);

// All built-in tasks, by name.
absl::StatusOr<std::vector<v1::TaskSpec>> BuiltinTasks();

// NotFound names the nearest task.
absl::StatusOr<v1::TaskSpec> BuiltinTask(const std::string& name);

// "acc_norm".
std::string FigureName(v1::TaskFigure figure);

// The folder of its files, in the directory of all tasks.
std::string TaskFolder(const v1::TaskSpec& spec);

// "piqa/valid.jsonl + valid-labels.lst, or ...": where its examples are looked for.
std::string ExpectedFiles(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_SPEC_H_
