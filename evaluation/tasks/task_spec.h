// Specifications of tasks: the built-in ones, embedded at build time from the *.textproto files of
// this folder, and those of users.
#ifndef BRAID_EVALUATION_TASKS_TASK_SPEC_H_
#define BRAID_EVALUATION_TASKS_TASK_SPEC_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "braid/v1/task.pb.h"

namespace braid {

// An embedded file of this folder. embed_tasks.cmake generates the table.
struct EmbeddedTask {
  absl::string_view file;
  absl::string_view text;
};
std::span<const EmbeddedTask> EmbeddedTasks();

// Parses and validates protobuf text format. InvalidArgument names `source`.
absl::StatusOr<v1::TaskSpec> ParseTaskSpec(absl::string_view text, absl::string_view source);

// Validates a specification independently of its data: templates and patterns are well formed,
// files are inside the task's folder, figures fit the kind of answer.
absl::Status CheckTaskSpec(const v1::TaskSpec& spec);

// Returns all built-in tasks, by name.
absl::StatusOr<std::vector<v1::TaskSpec>> BuiltinTasks();

// Returns a built-in task; NotFound names the nearest one.
absl::StatusOr<v1::TaskSpec> BuiltinTask(const std::string& name);

// Returns the choices of a task that are the same for all its examples, after one prompt; nullopt
// for any other task.
std::optional<std::vector<std::string>> CommonChoices(const v1::TaskSpec& spec);

// Returns the name of a figure, such as "acc_norm".
std::string FigureName(v1::TaskFigure figure);

// Returns the folder of the task's files within the directory of all tasks.
std::string TaskFolder(const v1::TaskSpec& spec);

// Returns where the examples are looked for: "piqa/valid.jsonl + valid-labels.lst, or ...".
std::string ExpectedFiles(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_SPEC_H_
