// What a task is trained on, as supervised records.
#ifndef BRAID_CLI_TASK_RECORDS_H_
#define BRAID_CLI_TASK_RECORDS_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "braid/v1/task.pb.h"
#include "pipeline/supervised/record_sources.h"

namespace braid {

// Reads the training file of a task, its `demonstrations`, as prompts and right answers, joined as
// in task evaluation, and lists the records with the question of an example that it is evaluated
// on. If there is no training file, the records are a share of these examples, which the evaluation
// of models trained on them leaves out (evaluation/tasks/training_share.h). Errors: those of
// LoadTask and LeaveOutTrainingShare.
absl::StatusOr<RecordSet> ReadTaskRecords(const v1::TaskSpec& spec,
                                          const std::filesystem::path& data_dir);

}  // namespace braid

#endif  // BRAID_CLI_TASK_RECORDS_H_
