// The prompts of built-in tasks as tokens, for analyses of what a model does with them.
#ifndef BRAID_EVALUATION_TASK_PROMPTS_H_
#define BRAID_EVALUATION_TASK_PROMPTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "evaluation/tasks/text_codec.h"
#include "formats/tokenizer.h"

namespace braid {

// Returns the functions of a tokenizer, which must outlive them, for prompts of a model.
TextCodec CodecOf(const v1::ModelConfig& model, const Tokenizer& tokenizer);

struct TaskPrompts {
  std::string task;
  // Without demonstrations and answers, after the start token; at most sequence_length tokens each.
  std::vector<std::vector<int32_t>> prompts;
};

// Reads at most 500 prompts of each of the built-in tasks `names`, in a fixed random order, from
// `tasks_dir`. InvalidArgument without a directory, and for a name that occurs twice; NotFound for
// an unknown task and for missing files; errors of LoadTask.
absl::StatusOr<std::vector<TaskPrompts>> ReadTaskPrompts(std::span<const std::string> names,
                                                         const std::string& tasks_dir,
                                                         const v1::ModelConfig& model,
                                                         const Tokenizer& tokenizer);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASK_PROMPTS_H_
