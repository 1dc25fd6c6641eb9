// What a model answers to one example.
#ifndef BRAID_TRAINER_EVALUATION_TASKS_EXAMPLE_ANSWER_H_
#define BRAID_TRAINER_EVALUATION_TASKS_EXAMPLE_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluation/tasks/task_prompt.h"
#include "trainer/model/decoder.h"

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
  bool shortened = false;
  std::vector<ChoiceScore> choices;
  // What the model wrote, up to a stop and without white space around it.
  std::string text;

  friend bool operator==(const ExampleAnswer&, const ExampleAnswer&) = default;
};

// What examples are asked with; the same for every example.
struct TaskSettings {
  int num_shots = 0;
  uint64_t seed = 0;
  // The model's.
  int64_t context_length = 0;
};

// All choices of a prompt are one batch over its context.
absl::StatusOr<ExampleAnswer> AnswerExample(const LoadedTask& task, int64_t example,
                                            const TaskSettings& settings, const TextCodec& codec,
                                            Decoder& decoder);

}  // namespace braid

#endif  // BRAID_TRAINER_EVALUATION_TASKS_EXAMPLE_ANSWER_H_
