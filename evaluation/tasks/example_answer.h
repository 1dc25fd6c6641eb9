// What a model answers to one example.
#ifndef BRAID_EVALUATION_TASKS_EXAMPLE_ANSWER_H_
#define BRAID_EVALUATION_TASKS_EXAMPLE_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/tasks/task_prompt.h"
#include "model/config/decoder.h"

namespace braid {

struct ChoiceScore {
  // Sum of ln p of the continuation's tokens.
  double log_prob = 0;
  int64_t num_tokens = 0;
  // The same after the unconditional context; 0 unless a figure needs it.
  double unconditional_log_prob = 0;

  friend bool operator==(const ChoiceScore&, const ChoiceScore&) = default;
};

struct ExampleAnswer {
  // Index of the example.
  int64_t example = 0;
  // Demonstrations that were shown.
  int num_shots = 0;
  // Some, or the beginning of the text, did not fit.
  bool shortened = false;
  std::vector<ChoiceScore> choices;
  // What the model wrote, up to a stop and without white space around it.
  std::string text;

  friend bool operator==(const ExampleAnswer&, const ExampleAnswer&) = default;
};

// What examples are asked with; the same for every example of a task.
struct Asking {
  const DemonstrationSet& shots;
  const TextCodec& codec;
  // The model's.
  int64_t context_length = 0;
  Decoder& decoder;
  // For unconditional contexts. One of its own, so that `decoder` keeps the demonstrations.
  Decoder& unconditional;
};

// All choices of a prompt are one batch over its context. Errors name task and example: Internal
// when a score is not a finite number (a model with NaN weights), else those of the decoder.
absl::StatusOr<ExampleAnswer> AnswerExample(const LoadedTask& task, int64_t example,
                                            const Asking& asking);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_EXAMPLE_ANSWER_H_
