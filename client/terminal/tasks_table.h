// How tasks and their scores look on a terminal.
#ifndef BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_

#include <filesystem>
#include <ostream>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/task.pb.h"

namespace braid {

// A row for each task and figure, the routings side by side; shares in percent with their
// intervals, SHOTS the mean of those shown. Then the tasks that were left out, and why.
void PrintTasksResult(const v1::TasksResult& result, std::ostream& out);

// Every task with its figures, shots, chance and files; whether they are in `data_dir`, unless
// that is empty.
void PrintTaskList(const std::vector<v1::TaskSpec>& tasks, const std::filesystem::path& data_dir,
                   std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_
