// The training file of a task as supervised records.
#ifndef BRAID_CLI_TASK_RECORDS_H_
#define BRAID_CLI_TASK_RECORDS_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "braid/v1/task.pb.h"
#include "pipeline/supervised/record_sources.h"

namespace braid {

// Reads the training file of a task, its `demonstrations`, as prompts and right answers, joined as
// in task evaluation. Errors: those of LoadTask; FAILED_PRECONDITION if the task has no file but
// the one that it is evaluated on.
absl::StatusOr<RecordSet> ReadTaskRecords(const v1::TaskSpec& spec,
                                          const std::filesystem::path& data_dir);

}  // namespace braid

#endif  // BRAID_CLI_TASK_RECORDS_H_
