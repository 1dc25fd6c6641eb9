// Finds the files of a task, in whichever of its formats they exist, and reads their records.
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

// Returns the files below `folder` that match a path with '*' in its last part, sorted by name.
std::vector<std::filesystem::path> MatchingFiles(const std::filesystem::path& folder,
                                                 const std::string& pattern);

// Returns the first of `files` that exists in `folder`; nullptr when none does.
absl::StatusOr<const v1::TaskFile*> FindTaskFile(const TaskFiles& files,
                                                 const std::filesystem::path& folder);

// Returns what is wrong with a file in `folder` that FindTaskFile passes over; "" without such a
// file.
std::string WhyNoTaskFile(const TaskFiles& files, const std::filesystem::path& folder);

// Returns all records with the computed fields of the file, then those of the task. InvalidArgument
// names file and line (for a JSON array: file and element) of malformed input, such as bytes that
// are not UTF-8.
absl::StatusOr<std::vector<TaskRecord>> ReadTaskFile(const v1::TaskFile& file,
                                                     const TaskFields& task_fields,
                                                     const std::filesystem::path& folder);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_FILES_H_
