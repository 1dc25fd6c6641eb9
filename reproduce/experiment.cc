#include "reproduce/experiment.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace braid {

int32_t ArmDefinition::num_experts() const {
  const v1::RoutingConfig& routing = settings.model().routing();
  return routing.has_num_experts() ? routing.num_experts() : 1;
}

std::string ArmDefinition::SettingsText() const {
  return std::string(absl::StripAsciiWhitespace(settings.ShortDebugString()));
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
