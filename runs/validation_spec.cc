#include "runs/validation_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

// Training sequences per validation window, so that validation takes at most 1 % of the time.
constexpr int64_t kSequencesPerWindow = 100;

absl::Status BadValidation(const char* field, int64_t got, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("validation.", field, ": got ", got, ", expected ", expected));
}

absl::Status CheckHasInterval(const v1::ValidationConfig& config) {
  if (config.has_every() || (!config.has_windows() && config.patience() == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("validation.every: got nothing with validation.",
                   config.has_windows() ? "windows" : "patience",
                   ", expected the steps or tokens between validations (--validate-every)"));
}

int64_t NumDomains(std::span<const DatasetInfo> datasets) {
  int64_t domains = 0;
  for (const DatasetInfo& info : datasets) domains += std::ssize(info.domains);
  return domains;
}

absl::Status CheckHeldout(int64_t num_domains, const v1::RunSpec& spec) {
  if (num_domains > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("validation.every: ", spec.dataset_dir(),
                   " has no held-out split to validate on; pack the corpus with a positive "
                   "pack.heldout_fraction, or leave validation.every unset"));
}

}  // namespace

absl::Status FillValidation(const StepSize& size, std::span<const DatasetInfo> datasets,
                            v1::RunSpec* spec) {
  if (!spec->has_validation()) return absl::OkStatus();
  v1::ValidationConfig* const config = spec->mutable_validation();
  FillStatedDefaults(config);
  RETURN_IF_ERROR(CheckHasInterval(*config));
  if (config->patience() < 0) return BadValidation("patience", config->patience(), "at least 0");
  if (!config->has_every()) return absl::OkStatus();
  const int64_t domains = NumDomains(datasets);
  RETURN_IF_ERROR(CheckHeldout(domains, *spec));
  ASSIGN_OR_RETURN(*config->mutable_every(),
                   ResolveLength("validation.every", config->every(), size));
  const int64_t steps = ValidationSteps(*spec);
  if (steps < 1) return BadValidation("every", steps, "at least 1 step");
  if (!config->has_windows()) {
    config->set_windows(std::max(domains, steps * size.global_batch_size / kSequencesPerWindow));
  }
  if (config->windows() >= domains) return absl::OkStatus();
  return BadValidation("windows", config->windows(),
                       absl::StrCat("at least ", domains, ", one per domain"));
}

int64_t ValidationSteps(const v1::RunSpec& resolved) {
  if (!resolved.validation().has_every()) return 0;
  return StepsOf(resolved.validation().every(), resolved.num_steps());
}

}  // namespace braid
