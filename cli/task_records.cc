#include "cli/task_records.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_prompt.h"
#include "evaluation/tasks/task_spec.h"
#include "evaluation/tasks/training_share.h"

namespace braid {
namespace {

// Returns prompt and right answer of an example.
SupervisedRecord RecordOf(const v1::TaskSpec& spec, const TaskExample& example) {
  const auto gold = static_cast<size_t>(example.gold);
  const std::string& prompt = example.prompts[example.prompts.size() == 1 ? 0 : gold];
  const std::string& answer =
      spec.has_choice() ? example.continuations[gold] : example.references[0];
  return {.place = example.where,
          .turns = {{ChatRole::kUser, PromptText(spec, {}, prompt)},
                    {ChatRole::kAssistant, absl::StrCat(DelimiterOf(spec), answer)}},
          .literal = true};
}

}  // namespace

absl::StatusOr<RecordSet> ReadTaskRecords(const v1::TaskSpec& spec,
                                          const std::filesystem::path& data_dir) {
  ASSIGN_OR_RETURN(LoadedTask task, LoadTask(spec, data_dir, /*num_shots=*/1));
  const bool shares = task.demonstrations_are_examples;
  if (shares) RETURN_IF_ERROR(LeaveOutTrainingShare(kTrainingShare, &task));
  std::set<std::string> evaluated;
  for (const TaskExample& example : task.examples) evaluated.insert(QuestionText(example));
  RecordSet set;
  for (const TaskExample& example : task.others) {
    set.records.push_back(RecordOf(spec, example));
    if (evaluated.contains(QuestionText(example))) set.evaluated.push_back(example.where);
  }
  RecordSource source = {(data_dir / TaskFolder(spec)).string(), absl::StrCat("task ", spec.name()),
                         std::ssize(set.records)};
  if (shares) {
    source.shared_task = spec.name();
    source.task_share = kTrainingShare;
  }
  set.sources.push_back(std::move(source));
  return set;
}

}  // namespace braid
