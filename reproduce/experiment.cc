#include "reproduce/experiment.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace braid {

std::vector<std::string> TunedTask::trained() const {
  return parts.empty() ? std::vector<std::string>{name} : parts;
}

int32_t ArmDefinition::num_experts() const {
  const v1::RoutingConfig& routing = settings.model().routing();
  return routing.has_num_experts() ? routing.num_experts() : 1;
}

std::string ArmDefinition::SettingsText() const {
  return std::string(absl::StripAsciiWhitespace(settings.ShortDebugString()));
}

bool ArmDefinition::IsTunedOn(const TunedTask& task) const {
  if (!tuning.has_value()) return false;
  const std::vector<std::string>& extra = tuning->extra_tasks;
  return !task.is_extra || std::ranges::find(extra, task.name) != extra.end();
}

std::string PlannedRun::name() const {
  if (!task.empty()) return absl::StrCat(arm.name, "-", task, "-seed-", seed);
  return absl::StrCat(arm.name, order == v1::SIMILARITY ? "-similarity" : "-random", "-seed-",
                      seed);
}

int64_t Experiment::tokens_of_step() const {
  return int64_t{settings.batch().global_batch_size()} * sequence_length;
}

}  // namespace braid
