// The solved examples that stand before every question of a task.
#ifndef BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_
#define BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"

namespace braid {

struct Demonstration {
  // Equal for two examples when one would give away the other's answer: the prompt of a free
  // answer, else prompt and right choice.
  std::string key;
  // With the separator behind it.
  std::string text;
  // Of the text by itself; in a prompt it may be a few more or less.
  int64_t num_tokens = 0;
};

// One set for all examples of a task, so that their prompts begin alike and a decoder that holds
// the beginning need not read it again.
class DemonstrationSet {
 public:
  // One more than `num_shots`, as far as there are so many different ones, in the order that
  // the seed and the task's name decide. `task` has to outlive the set.
  DemonstrationSet(const LoadedTask& task, int num_shots, uint64_t seed, const TextCodec& codec);

  // Up to `num_shots`: the first that do not give the example away. With fewer shots the first of
  // these.
  std::vector<const Demonstration*> For(const TaskExample& example) const;

 private:
  const v1::TaskSpec& spec_;
  const size_t num_shots_;
  std::vector<Demonstration> drawn_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_DEMONSTRATION_SET_H_
