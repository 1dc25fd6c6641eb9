// The files of a task: which of its formats is there, and its records.
#ifndef BRAID_EVALUATION_TASKS_TASK_FILES_H_
#define BRAID_EVALUATION_TASKS_TASK_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/task.pb.h"
#include "evaluation/tasks/task_record.h"

namespace braid {

using TaskFiles = google::protobuf::RepeatedPtrField<v1::TaskFile>;
using TaskFields = google::protobuf::RepeatedPtrField<v1::TaskField>;

// Files below `folder` that a path with '*' in its last part stands for, by name.
std::vector<std::filesystem::path> MatchingFiles(const std::filesystem::path& folder,
                                                 const std::string& pattern);

// The first of `files` that fits what lies in `folder`; nullptr when none does.
absl::StatusOr<const v1::TaskFile*> FindTaskFile(const TaskFiles& files,
                                                 const std::filesystem::path& folder);

// All records with the fields of the file, then those of the task. InvalidArgument names file and
// line (of a JSON array: file and element) of what is malformed.
absl::StatusOr<std::vector<TaskRecord>> ReadTaskFile(const v1::TaskFile& file,
                                                     const TaskFields& task_fields,
                                                     const std::filesystem::path& folder);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_FILES_H_
