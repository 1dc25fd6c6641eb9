// The examples of a task as texts: what a model is asked, and what is right.
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
  // "DIR/piqa/valid.jsonl:12".
  std::string where;
  // The prompt; with partial scoring one for each choice.
  std::vector<std::string> prompts;
  // What is scored, one for each choice, without the delimiter; none for free answers.
  std::vector<std::string> continuations;
  // Index of the right choice.
  int gold = 0;
  // Stands for no question.
  std::string unconditional_context;
  // Accepted free answers.
  std::vector<std::string> references;
};

// The delimiter between prompt and answer, or the task's own.
std::string DelimiterOf(const v1::TaskSpec& spec);
// The same behind a demonstration.
std::string SeparatorOf(const v1::TaskSpec& spec);

// InvalidArgument with the record's place: a field that is missing, an empty choice, a label
// that no choice has.
absl::StatusOr<TaskExample> MakeExample(const v1::TaskSpec& spec, const TaskRecord& record);

// Prompt, delimiter and right answer.
std::string DemonstrationText(const v1::TaskSpec& spec, const TaskExample& example);

struct LoadedTask {
  v1::TaskSpec spec;
  std::vector<TaskExample> examples;
  // What demonstrations are drawn from, unless they are the examples themselves: when there is no
  // file of them, or it is that of the examples. Empty unless asked for.
  std::vector<TaskExample> others;
  bool demonstrations_are_examples = true;
  // Of the bytes of all files that were read.
  uint64_t files_digest = 0;

  const std::vector<TaskExample>& Demonstrations() const {
    return demonstrations_are_examples ? examples : others;
  }
};

// The entry that fits the files in data_dir. NotFound, with the files looked for, when none does.
absl::StatusOr<const v1::TaskFile*> FindExamples(const v1::TaskSpec& spec,
                                                 const std::filesystem::path& data_dir);

// Reads a task that CheckTaskSpec accepts, and what demonstrations are drawn from when there are to
// be any. Errors of FindExamples; InvalidArgument for what MakeExample and ReadTaskFile refuse, and
// no examples at all. Of a demonstration only prompt and right answer have to be in order.
absl::StatusOr<LoadedTask> LoadTask(const v1::TaskSpec& spec, const std::filesystem::path& data_dir,
                                    int num_shots);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_EXAMPLES_H_
