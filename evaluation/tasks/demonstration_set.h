// The demonstrations (solved examples) that precede every question of a task.
#ifndef BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_
#define BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"

namespace braid {

struct Demonstration {
  // Equal for two examples if one would reveal the other's answer: the prompt for a free answer,
  // otherwise the prompt and the correct choice.
  std::string key;
  // Including the separator after it.
  std::string text;
  // Number of tokens of the text by itself; within a prompt it may differ slightly.
  int64_t num_tokens = 0;
};

// One set for all examples of a task, so that their prompts have a common beginning, which a
// decoder computes only once.
class DemonstrationSet {
 public:
  // Draws up to num_shots + 1 distinct demonstrations, in an order determined by the seed and the
  // task's name. `task` must outlive the set.
  DemonstrationSet(const LoadedTask& task, int num_shots, uint64_t seed, const TextCodec& codec);

  // Returns up to `num_shots` demonstrations: the first ones that do not reveal the answer of
  // `example`. Fewer shots are a prefix of more.
  std::vector<const Demonstration*> For(const TaskExample& example) const;

 private:
  const v1::TaskSpec& spec_;
  const size_t num_shots_;
  std::vector<Demonstration> drawn_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_
