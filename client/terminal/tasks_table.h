// Tasks and their scores as tables for a terminal.
#ifndef BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_
#define BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_

#include <filesystem>
#include <ostream>
#include <vector>

#include "braid/v1/evaluation.pb.h"
#include "braid/v1/task.pb.h"

namespace braid {

// Prints one row per task and metric with the routings side by side: percentages with confidence
// intervals, and the mean number of shots. Then the skipped tasks with the reason, and how many
// stored answers were damaged.
void PrintTasksResult(const v1::TasksResult& result, std::ostream& out);

// Prints each task with its metrics, shots, chance level and files and, unless `data_dir` is empty,
// whether the files exist there.
void PrintTaskList(const std::vector<v1::TaskSpec>& tasks, const std::filesystem::path& data_dir,
                   std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_TASKS_TABLE_H_
