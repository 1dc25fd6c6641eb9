#include "runs/schedule_spec.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/batch_spec.h"

namespace braid {
namespace {

constexpr double kDefaultDecay = 0.1;

absl::Status CheckFitsRun(const v1::RunSpec& spec) {
  const int64_t warmup = WarmupSteps(spec), decay = DecaySteps(spec), steps = spec.num_steps();
  if (spec.optimizer().has_warmup() && warmup > steps) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer.warmup: got ", warmup,
                                                   " steps, expected at most the run's ", steps,
                                                   "; shorten it or raise num_steps"));
  }
  if (spec.optimizer().schedule() != v1::WSD) return absl::OkStatus();
  if (decay >= 1 && warmup + decay <= steps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.decay: got ", decay, " steps, expected 1 to ", steps - warmup, ": the run has ",
      steps, " steps and ", warmup, " of them are warm-up; shorten it or raise num_steps"));
}

}  // namespace

absl::Status FillRunLength(const StepSize& size, v1::RunSpec* spec) {
  if (!spec->has_length()) return absl::OkStatus();
  if (spec->has_num_steps()) {
    return absl::InvalidArgumentError(
        absl::StrCat("length: got a length and num_steps: ", spec->num_steps(),
                     ", expected one of them; leave num_steps unset"));
  }
  ASSIGN_OR_RETURN(const v1::TrainingLength length, ResolveLength("length", spec->length(), size));
  if (length.has_fraction()) {
    return absl::InvalidArgumentError(absl::StrCat("length: got the share ", length.fraction(),
                                                   ", expected steps, tokens or epochs"));
  }
  const bool grows = spec->batch().has_warmup() && !spec->length().has_steps();
  spec->set_num_steps(grows ? StepsToRead(*spec, SequencesOf(spec->length(), size))
                            : length.steps());
  spec->clear_length();
  return absl::OkStatus();
}

absl::Status FillSchedule(const StepSize& size, v1::RunSpec* spec) {
  v1::OptimizerConfig* const optimizer = spec->mutable_optimizer();
  const v1::LearningRateSchedule schedule = optimizer->schedule();
  if (!v1::LearningRateSchedule_IsValid(schedule)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule: got ", static_cast<int>(schedule),
                     ", expected COSINE, WSD, LINEAR, CONSTANT or INVERSE_SQUARE_ROOT"));
  }
  if (optimizer->has_warmup()) {
    StepSize from_start = size;
    from_start.growth = BatchScheduleOf(*spec);
    ASSIGN_OR_RETURN(*optimizer->mutable_warmup(),
                     ResolveLength("optimizer.warmup", optimizer->warmup(), from_start));
  }
  if (optimizer->has_decay() && schedule != v1::WSD) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.decay: got a decay with schedule ", v1::LearningRateSchedule_Name(schedule),
        ", expected WSD; set optimizer.schedule to WSD or leave the decay unset"));
  }
  if (schedule == v1::WSD && !optimizer->has_decay()) {
    optimizer->mutable_decay()->set_fraction(kDefaultDecay);
  }
  if (optimizer->has_decay()) {
    ASSIGN_OR_RETURN(*optimizer->mutable_decay(),
                     ResolveLength("optimizer.decay", optimizer->decay(), size));
  }
  return CheckFitsRun(*spec);
}

int64_t WarmupSteps(const v1::RunSpec& resolved) {
  const v1::OptimizerConfig& optimizer = resolved.optimizer();
  if (optimizer.has_warmup()) return StepsOf(optimizer.warmup(), resolved.num_steps());
  v1::TrainingLength share;
  share.set_fraction(optimizer.warmup_fraction());
  return StepsOf(share, resolved.num_steps());
}

int64_t DecaySteps(const v1::RunSpec& resolved) {
  if (resolved.optimizer().schedule() != v1::WSD) return 0;
  return StepsOf(resolved.optimizer().decay(), resolved.num_steps());
}

}  // namespace braid
