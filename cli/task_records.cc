#include "cli/task_records.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_prompt.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

// Returns prompt and right answer of an example.
SupervisedRecord RecordOf(const v1::TaskSpec& spec, const TaskExample& example) {
  const auto gold = static_cast<size_t>(example.gold);
  const std::string& prompt = example.prompts[example.prompts.size() == 1 ? 0 : gold];
  const std::string& answer = spec.has_free() ? example.references[0] : example.continuations[gold];
  return {.place = example.where,
          .turns = {{ChatRole::kUser, PromptText(spec, {}, prompt)},
                    {ChatRole::kAssistant, absl::StrCat(DelimiterOf(spec), answer)}},
          .literal = true};
}

}  // namespace

absl::StatusOr<RecordSet> ReadTaskRecords(const v1::TaskSpec& spec,
                                          const std::filesystem::path& data_dir) {
  ASSIGN_OR_RETURN(const LoadedTask task, LoadTask(spec, data_dir, /*num_shots=*/1));
  if (task.demonstrations_are_examples) {
    return absl::FailedPreconditionError(absl::StrCat(
        "task ", spec.name(), ": got no training file in ", (data_dir / TaskFolder(spec)).string(),
        ", expected one beside the examples it is evaluated on; train on --data FILE instead"));
  }
  RecordSet set;
  for (const TaskExample& example : task.others) set.records.push_back(RecordOf(spec, example));
  set.sources.push_back({(data_dir / TaskFolder(spec)).string(), absl::StrCat("task ", spec.name()),
                         static_cast<int64_t>(set.records.size())});
  return set;
}

}  // namespace braid
