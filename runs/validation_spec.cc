#include "runs/validation_spec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "model/config/model_flops.h"
#include "proto/stated_defaults.h"
#include "runs/batch_spec.h"

namespace braid {
namespace {

// Training sequences per validation window, so that validation takes at most 1 % of the time.
constexpr double kSequencesPerWindow = 100;

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

// Returns the sequences that a run trains on; a batch that grows has fewer at first.
double SequencesOfRun(const v1::RunSpec& spec) {
  return static_cast<double>(BatchScheduleOf(spec).Before(spec.num_steps()));
}

// Returns the intervals, whole and in part, in `sequences` of a run with an interval in tokens.
double IntervalsIn(int64_t sequences, const v1::RunSpec& spec) {
  return static_cast<double>(sequences) * spec.model().sequence_length() /
         spec.validation().every().tokens();
}

// Returns the whole intervals in the first `step` steps of a run with an interval in tokens.
double WholeIntervals(int64_t step, const v1::RunSpec& spec) {
  // Epochs such as 0.3 have no exact double.
  return std::floor(IntervalsIn(BatchScheduleOf(spec).Before(step), spec) + 1e-9);
}

// Returns the number of validations of a run, which always ends with one. With intervals in tokens
// that are shorter than some steps, there may be fewer.
int64_t NumValidations(const v1::RunSpec& spec) {
  const v1::TrainingLength& every = spec.validation().every();
  const auto num_steps = static_cast<double>(spec.num_steps());
  const double intervals = every.has_tokens()
                               ? IntervalsIn(BatchScheduleOf(spec).Before(spec.num_steps()), spec)
                               : num_steps / static_cast<double>(StepsOf(every, spec.num_steps()));
  return static_cast<int64_t>(std::min(num_steps, std::ceil(intervals - 1e-9)));
}

// Returns the interval of a resolved spec, such as "500 steps".
std::string IntervalText(const v1::RunSpec& spec) {
  const v1::TrainingLength& every = spec.validation().every();
  if (every.has_tokens()) return absl::StrFormat("%.0f tokens", every.tokens());
  return Counted(StepsOf(every, spec.num_steps()), "step");
}

int64_t NumDomains(std::span<const DatasetInfo> datasets) {
  int64_t domains = 0;
  for (const DatasetInfo& info : datasets) domains += std::ssize(info.domains);
  return domains;
}

absl::Status CheckHeldout(int64_t num_domains, const v1::RunSpec& spec) {
  if (num_domains > 0) return absl::OkStatus();
  std::vector<std::string> names;
  for (const v1::MixtureDataset& entry : spec.datasets()) names.push_back(entry.dataset());
  if (names.empty()) names.push_back(spec.dataset_dir());
  return absl::InvalidArgumentError(absl::StrCat(
      "validation.every: got no held-out split to validate on in ", absl::StrJoin(names, ", "),
      "; pack the corpus with a positive pack.heldout_fraction, or leave "
      "validation.every unset"));
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
  ASSIGN_OR_RETURN(const v1::TrainingLength every,
                   ResolveLength("validation.every", config->every(), size));
  const int64_t steps = StepsOf(every, spec->num_steps());
  if (steps < 1) return BadValidation("every", steps, "at least 1 step");
  const bool in_tokens = config->every().has_tokens() || config->every().has_epochs();
  if (in_tokens && spec->batch().has_warmup()) {
    const double sequences = SequencesOf(config->every(), size);
    config->mutable_every()->set_tokens(sequences * static_cast<double>(size.sequence_length));
  } else {
    *config->mutable_every() = every;
  }
  if (!config->has_windows()) {
    const double sequences = SequencesOfRun(*spec) / static_cast<double>(NumValidations(*spec));
    config->set_windows(std::max(domains, static_cast<int64_t>(sequences / kSequencesPerWindow)));
  }
  if (config->windows() >= domains) return absl::OkStatus();
  return BadValidation("windows", config->windows(),
                       absl::StrCat("at least ", domains, ", one per domain"));
}

ValidationCost CostOfValidation(const v1::RunSpec& resolved, int64_t windows) {
  if (windows == 0) return {};
  const ModelFlops flops = FlopsPerToken(resolved.model(), resolved.finetuning());
  const double ranks = resolved.world_size();
  const double training = SequencesOfRun(resolved) / ranks * flops.total();
  const double validation =
      std::ceil(static_cast<double>(windows) / ranks) * (flops.forward + flops.merge_forward);
  const double all = validation * static_cast<double>(NumValidations(resolved));
  const double affordable =
      std::floor(training * kMaxValidationShare / (1 - kMaxValidationShare) / validation);
  ValidationCost cost = {.share = all / (all + training)};
  if (affordable >= 1) {
    cost.affordable_steps =
        static_cast<int64_t>(std::ceil(static_cast<double>(resolved.num_steps()) / affordable));
  }
  return cost;
}

std::string ValidationCostText(const v1::RunSpec& resolved, int64_t windows,
                               std::span<const std::string> without_split) {
  const ValidationCost cost = CostOfValidation(resolved, windows);
  std::string text =
      absl::StrFormat("validation: %s every %s, about %.2g %% of the time",
                      Counted(windows, "window"), IntervalText(resolved), 100 * cost.share);
  if (!without_split.empty()) {
    absl::StrAppend(&text, "; no held-out split in ", absl::StrJoin(without_split, ", "));
  }
  if (cost.share <= kMaxValidationShare) return text;
  const double limit = 100 * kMaxValidationShare;
  if (cost.affordable_steps == 0) {
    absl::StrAppend(&text, "; one validation alone takes more than ", limit, " %");
  } else {
    absl::StrAppend(&text, "; with validation.every of at least ", cost.affordable_steps,
                    " steps it is at most ", limit, " %");
  }
  return text;
}

bool ValidationIsDue(const v1::RunSpec& resolved, int64_t step) {
  if (!resolved.validation().has_every()) return false;
  if (step >= resolved.num_steps()) return true;
  const v1::TrainingLength& every = resolved.validation().every();
  if (!every.has_tokens()) return step % StepsOf(every, resolved.num_steps()) == 0;
  return WholeIntervals(step, resolved) > WholeIntervals(step - 1, resolved);
}

}  // namespace braid
