// What a model reads for one example: demonstrations, the question, and the answers to score.
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

// Description, demonstrations, prompt.
std::string PromptText(const v1::TaskSpec& spec, std::span<const Demonstration* const> shots,
                       absl::string_view prompt);

// A context and the continuations of it that are scored.
struct ScoredPrompt {
  std::vector<int32_t> context;
  std::vector<std::vector<int32_t>> continuations;
};

// EOS and the tokens of `context`; of each continuation the tokens that encode(context +
// continuation) has beyond encode(context). White space at the end of the context goes to the
// continuations, since tokenizers keep it with the word behind it (the rule of
// lm-evaluation-harness, HFLM._encode_pair). A continuation that the tokenizer drops is empty.
ScoredPrompt EncodePair(const TextCodec& codec, absl::string_view context,
                        std::span<const std::string> continuations);

struct Question {
  // One, or one for each choice.
  std::vector<ScoredPrompt> prompts;
  int num_shots = 0;
  // Demonstrations, or the beginning of the text, did not fit.
  bool shortened = false;
};

// Context and continuation (free answers: the tokens that may be written) fit into
// `context_length` tokens: demonstrations are left out, the last drawn first; then the right end
// of the context is kept, at least one token, then that of the continuation.
Question MakeQuestion(const LoadedTask& task, int64_t example, const DemonstrationSet& shots,
                      const TextCodec& codec, int64_t context_length);

// The continuations of an example after its unconditional context, cut like the above.
ScoredPrompt UnconditionalPrompt(const LoadedTask& task, int64_t example, const TextCodec& codec,
                                 int64_t context_length);

// The tokens that a free answer may have.
int MaxAnswerTokens(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_PROMPT_H_
