#include "evaluation/task_prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/demonstration_set.h"
#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_prompt.h"
#include "evaluation/tasks/task_spec.h"
#include "runs/start_token.h"

namespace braid {
namespace {

constexpr int64_t kMostPrompts = 500;

}  // namespace

TextCodec CodecOf(const v1::ModelConfig& model, const Tokenizer& tokenizer) {
  TextCodec codec;
  codec.encode = [&tokenizer](std::string_view text) { return tokenizer.Encode(text); };
  codec.decode = [&tokenizer](std::span<const int32_t> tokens) { return tokenizer.Decode(tokens); };
  codec.eos_id = tokenizer.eos_id();
  codec.start_id = StartTokenId(model, tokenizer);
  codec.vocab_size = tokenizer.vocab_size();
  return codec;
}

absl::StatusOr<std::vector<TaskPrompts>> ReadTaskPrompts(std::span<const std::string> names,
                                                         const std::string& tasks_dir,
                                                         const v1::ModelConfig& model,
                                                         const Tokenizer& tokenizer) {
  std::vector<TaskPrompts> result;
  if (!names.empty() && tasks_dir.empty()) {
    return absl::InvalidArgumentError(
        "tasks_dir: got none, expected the directory with the files of the tasks");
  }
  const TextCodec codec = CodecOf(model, tokenizer);
  for (const std::string& name : names) {
    if (std::ranges::find(result, name, &TaskPrompts::task) != result.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tasks: got ", name, " twice, expected each task once"));
    }
    ASSIGN_OR_RETURN(const v1::TaskSpec spec, BuiltinTask(name));
    ASSIGN_OR_RETURN(const LoadedTask task, LoadTask(spec, tasks_dir, /*num_shots=*/0));
    const DemonstrationSet none(task, /*num_shots=*/0, /*seed=*/0, codec);
    TaskPrompts& prompts = result.emplace_back(TaskPrompts{.task = name, .prompts = {}});
    for (const int64_t i : SampleExamples(std::ssize(task.examples), kMostPrompts)) {
      Question question = MakeQuestion(task, i, none, codec, model.sequence_length());
      prompts.prompts.push_back(std::move(question.prompts[0].context));
    }
  }
  return result;
}

}  // namespace braid
