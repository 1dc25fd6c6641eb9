// Builds the model input for one example: demonstrations, the question, and the answers to score.
#ifndef BRAID_EVALUATION_TASKS_TASK_PROMPT_H_
#define BRAID_EVALUATION_TASKS_TASK_PROMPT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "evaluation/tasks/demonstration_set.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"

namespace braid {

// Returns description, demonstrations and prompt as one text.
std::string PromptText(const v1::TaskSpec& spec, std::span<const Demonstration* const> shots,
                       absl::string_view prompt);

// A context and the continuations of it that are scored.
struct ScoredPrompt {
  std::vector<int32_t> context;
  std::vector<std::vector<int32_t>> continuations;
};

// Encodes a context, after the start token or EOS, and its continuations, which join it by the rule
// of EncodeJoined (formats/joined_text.h).
ScoredPrompt EncodePair(const TextCodec& codec, absl::string_view context,
                        std::span<const std::string> continuations);

struct Question {
  // One prompt, or one per choice.
  std::vector<ScoredPrompt> prompts;
  int num_shots = 0;
  // True if demonstrations, or the beginning of the text, did not fit.
  bool shortened = false;
};

// Builds a question whose context and continuation (for free answers: the most tokens of an answer,
// or half of `context_length` if that is less) fit into `context_length` tokens. If necessary,
// demonstrations are dropped, the last drawn first; then the context is truncated on the left to no
// less than one token; then the continuation likewise.
Question MakeQuestion(const LoadedTask& task, int64_t example, const DemonstrationSet& shots,
                      const TextCodec& codec, int64_t context_length);

// Returns the continuations of an example after its unconditional context, truncated in the same
// way.
ScoredPrompt UnconditionalPrompt(const LoadedTask& task, int64_t example, const TextCodec& codec,
                                 int64_t context_length);

// Returns the first reference of a free answer after the prompt with `num_shots` demonstrations,
// truncated in the same way.
ScoredPrompt ReferencePrompt(const LoadedTask& task, int64_t example, const DemonstrationSet& shots,
                             int num_shots, const TextCodec& codec, int64_t context_length);

// Returns the prompt of an example without demonstrations or continuations, truncated on the left
// to `context_length` tokens; sets *shortened if it was longer.
std::vector<int32_t> BarePrompt(const LoadedTask& task, int64_t example, const TextCodec& codec,
                                int64_t context_length, bool* shortened);

// Returns the maximum number of tokens of a free answer.
int MaxAnswerTokens(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_PROMPT_H_
