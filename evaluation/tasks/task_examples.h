// The examples of a task as texts: prompts and correct answers.
#ifndef BRAID_EVALUATION_TASKS_TASK_EXAMPLES_H_
#define BRAID_EVALUATION_TASKS_TASK_EXAMPLES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/task.pb.h"
#include "evaluation/tasks/task_record.h"

namespace braid {

struct TaskExample {
  // Source of the example: "DIR/piqa/valid.jsonl:12".
  std::string where;
  // The prompt; with partial scoring, one per choice.
  std::vector<std::string> prompts;
  // The continuations to score, one per choice, without the delimiter; empty for free answers.
  std::vector<std::string> continuations;
  // Index of the correct choice.
  int gold = 0;
  // The context that replaces the question in unconditional scores.
  std::string unconditional_context;
  // Accepted free answers; of a number its text.
  std::vector<std::string> references;
  // The value of free.group_by; empty without.
  std::string group = {};
  // The right number, of tasks whose answers are numbers.
  double number = 0;
};

// Returns the delimiter between prompt and answer: the task's own, or the default.
std::string DelimiterOf(const v1::TaskSpec& spec);
// Returns the separator that follows a demonstration: the task's own, or the default.
std::string SeparatorOf(const v1::TaskSpec& spec);

// Returns prompt, delimiter and correct answer.
std::string DemonstrationText(const v1::TaskSpec& spec, const TaskExample& example);

struct LoadedTask {
  v1::TaskSpec spec;
  std::vector<TaskExample> examples;
  // The pool of demonstrations, if it differs from the examples. Empty when there is no separate
  // file of demonstrations, when it is that of the examples, or when no demonstrations are
  // requested.
  std::vector<TaskExample> others;
  bool demonstrations_are_examples = true;
  // Digest of the bytes of all files that were read, and of the share that was left out.
  uint64_t files_digest = 0;
  // Examples that were left out, because a model was fine-tuned on them (training_share.h).
  int64_t num_left_out = 0;

  const std::vector<TaskExample>& Demonstrations() const {
    return demonstrations_are_examples ? examples : others;
  }
};

// Returns the entry whose files exist in data_dir. NotFound lists the files looked for.
absl::StatusOr<const v1::TaskFile*> FindExamples(const v1::TaskSpec& spec,
                                                 const std::filesystem::path& data_dir);

// Reads a task that CheckTaskSpec accepts, and the pool of demonstrations if any are requested.
// Returns the errors of FindExamples and ReadTaskFile. Returns InvalidArgument if there are no
// examples, or if a record lacks a field, has an empty choice, a label that matches no choice, or a
// value that should be a finite number and is not; the message names the record. In
// demonstrations, only the prompt and the correct answer are checked. Examples of one group
// (free.group_by) become the first of them, with the references of all.
absl::StatusOr<LoadedTask> LoadTask(const v1::TaskSpec& spec, const std::filesystem::path& data_dir,
                                    int num_shots);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_EXAMPLES_H_
