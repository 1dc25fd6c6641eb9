#include "runs/optimizer_spec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/finetuning_config.h"
#include "model/config/parameter_layout.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr double kMuonMomentum = 0.95;

absl::Status BadSetting(std::string_view field, std::string_view got, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("optimizer.", std::string(field), ": got ",
                                                 std::string(got), ", expected ",
                                                 std::string(expected)));
}

absl::Status CheckSetting(bool good, std::string_view field, double got,
                          std::string_view expected) {
  return good ? absl::OkStatus() : BadSetting(field, absl::StrCat(got), expected);
}

// Returns whether every setting of the first version has a value, as in the spec of any run.
bool IsResolvedOptimizer(const v1::OptimizerConfig& c) {
  return c.has_learning_rate() && c.has_beta1() && c.has_beta2() && c.has_epsilon() &&
         c.has_weight_decay() && c.has_clip_norm() && c.has_warmup_fraction() &&
         c.has_final_lr_ratio();
}

// Refuses settings that the schedule would ignore. A resolved spec has their defaults.
absl::Status CheckUsedBySchedule(const v1::OptimizerConfig& asked) {
  if (IsResolvedOptimizer(asked)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSetting(!(asked.has_warmup() && asked.has_warmup_fraction()),
                               "warmup_fraction", asked.warmup_fraction(),
                               "nothing beside optimizer.warmup; leave one of them unset"));
  return CheckSetting(!(asked.schedule() == v1::CONSTANT && asked.has_final_lr_ratio()),
                      "final_lr_ratio", asked.final_lr_ratio(),
                      "nothing with schedule CONSTANT, whose rate stays at its peak; leave it "
                      "unset or set another optimizer.schedule");
}

absl::Status CheckNumbers(const v1::OptimizerConfig& c) {
  const auto finite_positive = [](double x) { return std::isfinite(x) && x > 0; };
  RETURN_IF_ERROR(CheckSetting(finite_positive(c.learning_rate()), "learning_rate",
                               c.learning_rate(), "a positive number"));
  RETURN_IF_ERROR(CheckSetting(c.beta1() > 0 && c.beta1() < 1, "beta1", c.beta1(),
                               "more than 0 and less than 1"));
  RETURN_IF_ERROR(CheckSetting(c.beta2() > 0 && c.beta2() < 1, "beta2", c.beta2(),
                               "more than 0 and less than 1"));
  RETURN_IF_ERROR(
      CheckSetting(finite_positive(c.epsilon()), "epsilon", c.epsilon(), "a positive number"));
  RETURN_IF_ERROR(CheckSetting(std::isfinite(c.weight_decay()) && c.weight_decay() < 1,
                               "weight_decay", c.weight_decay(), "less than 1 (0 for none)"));
  RETURN_IF_ERROR(CheckSetting(std::isfinite(c.clip_norm()), "clip_norm", c.clip_norm(),
                               "a number (0 for none)"));
  RETURN_IF_ERROR(CheckSetting(c.warmup_fraction() >= 0 && c.warmup_fraction() < 1,
                               "warmup_fraction", c.warmup_fraction(),
                               "at least 0 and less than 1"));
  RETURN_IF_ERROR(CheckSetting(c.ema_decay() >= 0 && c.ema_decay() < 1, "ema_decay", c.ema_decay(),
                               "at least 0 (no average) and less than 1"));
  return CheckSetting(c.final_lr_ratio() >= 0 && c.final_lr_ratio() <= 1, "final_lr_ratio",
                      c.final_lr_ratio(), "between 0 and 1");
}

absl::Status FillMuon(const v1::RunSpec& spec, v1::OptimizerConfig* optimizer) {
  if (!v1::OptimizerAlgorithm_IsValid(optimizer->algorithm())) {
    return BadSetting("algorithm", absl::StrCat(static_cast<int>(optimizer->algorithm())),
                      "ADAMW or MUON");
  }
  const double momentum = optimizer->muon_momentum();
  if (optimizer->algorithm() != v1::MUON) {
    return CheckSetting(
        !optimizer->has_muon_momentum(), "muon_momentum", momentum,
        "nothing with algorithm ADAMW; set optimizer.algorithm to MUON or leave it unset");
  }
  if (spec.model().initialization() == v1::WIDTH_SCALED) {
    return BadSetting("algorithm", "MUON with model.initialization WIDTH_SCALED",
                      "ADAMW, for whose updates the learning rates are scaled");
  }
  if (!optimizer->has_muon_momentum()) optimizer->set_muon_momentum(kMuonMomentum);
  RETURN_IF_ERROR(CheckSetting(optimizer->muon_momentum() >= 0 && optimizer->muon_momentum() < 1,
                               "muon_momentum", optimizer->muon_momentum(),
                               "at least 0 and less than 1"));
  const auto layout = FinetunedLayout(spec.model(), spec.finetuning());
  if (std::ranges::any_of(layout, IsHiddenMatrix)) return absl::OkStatus();
  return BadSetting("algorithm", "MUON for a run that trains no matrix of attention or FFNs",
                    "ADAMW, which trains adapters and all other parameters");
}

}  // namespace

absl::Status FillOptimizer(v1::RunSpec* spec) {
  v1::OptimizerConfig* const optimizer = spec->mutable_optimizer();
  RETURN_IF_ERROR(CheckUsedBySchedule(*optimizer));
  FillStatedDefaults(optimizer);
  RETURN_IF_ERROR(CheckNumbers(*optimizer));
  return FillMuon(*spec, optimizer);
}

}  // namespace braid
