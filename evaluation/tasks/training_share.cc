#include "evaluation/tasks/training_share.h"

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr uint64_t kShareStream = 0x7A5C;

}  // namespace

std::string QuestionText(const TaskExample& example) {
  return absl::StrJoin(example.prompts, "\n");
}

bool IsInTrainingShare(const TaskExample& example, double share) {
  return UnitInterval(Mix64(kShareStream, QuestionText(example))) < share;
}

absl::Status LeaveOutTrainingShare(double share, LoadedTask* task) {
  std::vector<TaskExample> kept, left_out;
  for (TaskExample& example : task->examples) {
    (IsInTrainingShare(example, share) ? left_out : kept).push_back(std::move(example));
  }
  task->examples = std::move(kept);
  task->num_left_out = static_cast<int64_t>(left_out.size());
  task->files_digest = Mix64(task->files_digest, std::bit_cast<uint64_t>(share));
  if (task->demonstrations_are_examples && !left_out.empty()) {
    task->others = std::move(left_out);
    task->demonstrations_are_examples = false;
  }
  if (!task->examples.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("task \"", task->spec.name(), "\": got ", Counted(task->num_left_out, "example"),
                   " in total, all in the share that a model was fine-tuned on, expected more"));
}

}  // namespace braid
