// The share of a task's examples that fine-tuning trains on when the task has no training file, and
// that the evaluation of models tuned in that way leaves out.
#ifndef BRAID_EVALUATION_TASKS_TRAINING_SHARE_H_
#define BRAID_EVALUATION_TASKS_TRAINING_SHARE_H_

#include <string>

#include "absl/status/status.h"
#include "evaluation/tasks/task_examples.h"

namespace braid {

inline constexpr double kTrainingShare = .75;

// Returns the text by which examples are recognized: that of their prompts.
std::string QuestionText(const TaskExample& example);

// Returns whether an example belongs to the share. This depends on its QuestionText alone, so that
// equal questions are together and the share is the same in every directory of files.
bool IsInTrainingShare(const TaskExample& example, double share);

// Removes the share from the examples that are evaluated, and counts them in num_left_out.
// Demonstrations that would come from the examples then come from the share. InvalidArgument when
// no example is left.
absl::Status LeaveOutTrainingShare(double share, LoadedTask* task);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TRAINING_SHARE_H_
