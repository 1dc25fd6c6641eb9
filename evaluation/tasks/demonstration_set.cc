#include "evaluation/tasks/demonstration_set.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "evaluation/tasks/random_order.h"

namespace braid {
namespace {

std::string KeyOf(const v1::TaskSpec& spec, const TaskExample& example) {
  return spec.has_free() ? example.prompts[0] : DemonstrationText(spec, example);
}

}  // namespace

DemonstrationSet::DemonstrationSet(const LoadedTask& task, int num_shots, uint64_t seed,
                                   const TextCodec& codec)
    : spec_(task.spec), num_shots_(static_cast<size_t>(num_shots)) {
  if (num_shots == 0) return;
  const std::vector<TaskExample>& pool = task.Demonstrations();
  RandomOrder order(static_cast<int64_t>(pool.size()), Mix64(seed, task.spec.name()));
  std::set<std::string> keys;
  while (!order.done() && drawn_.size() <= num_shots_) {
    const TaskExample& example = pool[static_cast<size_t>(order.Next())];
    Demonstration one = {KeyOf(spec_, example), DemonstrationText(spec_, example), 0};
    if (!keys.insert(one.key).second) continue;
    one.text += SeparatorOf(spec_);
    one.num_tokens = static_cast<int64_t>(codec.encode(one.text).size());
    drawn_.push_back(std::move(one));
  }
}

std::vector<const Demonstration*> DemonstrationSet::For(const TaskExample& example) const {
  std::vector<const Demonstration*> shown;
  if (drawn_.empty()) return shown;
  const std::string own = KeyOf(spec_, example);
  for (const Demonstration& one : drawn_) {
    if (shown.size() < num_shots_ && one.key != own) shown.push_back(&one);
  }
  return shown;
}

}  // namespace braid
