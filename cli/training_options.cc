#include "cli/training_options.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "runs/branch.h"
#include "runs/training_length.h"

namespace braid {
namespace {

constexpr char kCourse[] = "Course of training";

absl::Status SetLength(const std::string& flag, const std::string& text,
                       v1::TrainingLength* length) {
  ASSIGN_OR_RETURN(*length, ParseTrainingLength(flag, text));
  return absl::OkStatus();
}

}  // namespace

void TrainingOptions::AddTo(CLI::App* command) {
  const auto help = [](const char* path) { return FieldHelpText("braid.v1.RunSpec", "", path); };
  const auto add_length = [&](const char* flag, std::string* text, const char* path) {
    command->add_option(flag, *text, help(path))->type_name("LENGTH")->group(kCourse);
  };
  add_length("--length", &length, "length");
  add_length("--warmup", &warmup, "optimizer.warmup");
  command->add_option("--schedule", schedule, help("optimizer.schedule"))
      ->check(OneOf({"cosine", "wsd", "linear", "constant", "inverse-square-root"}))
      ->group(kCourse);
  add_length("--decay", &decay, "optimizer.decay");
  fields.Add(command, "--optimizer", "optimizer.algorithm")
      ->transform(CLI::Validator(
          [](std::string& name) {
            name = EnumName(name);
            return std::string();
          },
          ""))
      ->group(kCourse);
  command->add_option("--branch", branch, help("branch_from"))
      ->type_name("RUN@STEP")
      ->group(kCourse);
  add_length("--validate-every", &validate_every, "validation.every");
  fields.Add(command, "--patience", "validation.patience")->group(kCourse);
  command->add_option("--on-spike", spike_policy, help("spikes.policy"))
      ->check(OneOf({"continue", "skip-batch", "rollback"}))
      ->group(kCourse);
}

absl::Status TrainingOptions::Apply(v1::RunSpec* spec) const {
  if (!length.empty()) RETURN_IF_ERROR(SetLength("--length", length, spec->mutable_length()));
  v1::OptimizerConfig* const optimizer = spec->mutable_optimizer();
  if (!warmup.empty()) RETURN_IF_ERROR(SetLength("--warmup", warmup, optimizer->mutable_warmup()));
  if (!decay.empty()) RETURN_IF_ERROR(SetLength("--decay", decay, optimizer->mutable_decay()));
  if (!validate_every.empty()) {
    RETURN_IF_ERROR(
        SetLength("--validate-every", validate_every, spec->mutable_validation()->mutable_every()));
  }
  if (!schedule.empty()) {
    v1::LearningRateSchedule parsed = v1::COSINE;
    BRAID_CHECK(v1::LearningRateSchedule_Parse(EnumName(schedule), &parsed)) << schedule;
    optimizer->set_schedule(parsed);
  }
  if (!spike_policy.empty()) {
    v1::SpikePolicy parsed = v1::CONTINUE;
    BRAID_CHECK(v1::SpikePolicy_Parse(EnumName(spike_policy), &parsed)) << spike_policy;
    spec->mutable_spikes()->set_policy(parsed);
  }
  if (!branch.empty()) {
    ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(branch));
    spec->set_branch_from(absl::StrCat(ModelReference(point.run), "@", point.step));
  }
  return fields.Apply(spec);
}

}  // namespace braid
