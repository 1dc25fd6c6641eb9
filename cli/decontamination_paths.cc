#include "cli/decontamination_paths.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/task_files.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

constexpr std::string_view kTasksPrefix = "tasks=";
// What "tasks" alone means: the directory of the examples in the help and the documentation.
constexpr std::string_view kUsualTasks = "tasks=downstream";

std::string AbsoluteForm(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// Returns the files in a directory of the examples of built-in tasks; training files are left out.
absl::StatusOr<std::vector<std::string>> TaskExampleFiles(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> tasks, BuiltinTasks());
  std::vector<std::string> files;
  for (const v1::TaskSpec& task : tasks) {
    const std::filesystem::path folder = directory / TaskFolder(task);
    ASSIGN_OR_RETURN(const v1::TaskFile* const file, FindTaskFile(task.examples(), folder));
    if (file == nullptr) continue;
    for (const std::filesystem::path& path : MatchingFiles(folder, file->path())) {
      files.push_back(path.string());
    }
  }
  if (!files.empty()) return files;
  return absl::NotFoundError(
      absl::StrCat("decontaminate.paths: ", directory.string(),
                   ": got no file of a built-in task, expected at least one; list them with: braid "
                   "eval tasks --list --data ",
                   directory.string()));
}

}  // namespace

CLI::Validator DecontaminationPathValue() {
  return CLI::Validator(
      [](std::string& path) -> std::string {
        std::error_code error;
        if (path == "tasks" && !std::filesystem::exists(path, error)) path = kUsualTasks;
        if (path.starts_with(kTasksPrefix) && path.size() > kTasksPrefix.size()) {
          path.replace(kTasksPrefix.size(), path.npos,
                       AbsoluteForm(path.substr(kTasksPrefix.size())));
        } else if (!path.empty()) {
          path = AbsoluteForm(path);
        }
        return "";
      },
      "");
}

absl::Status ExpandTaskPaths(google::protobuf::RepeatedPtrField<std::string>* paths) {
  google::protobuf::RepeatedPtrField<std::string> expanded;
  for (const std::string& path : *paths) {
    if (!path.starts_with(kTasksPrefix)) {
      *expanded.Add() = path;
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     TaskExampleFiles(path.substr(kTasksPrefix.size())));
    expanded.Add(files.begin(), files.end());
  }
  *paths = std::move(expanded);
  return absl::OkStatus();
}

}  // namespace braid
