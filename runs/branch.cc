#include "runs/branch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/packed_dataset.h"
#include "runs/batch_spec.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/mixture_spec.h"
#include "runs/run_spec.h"
#include "runs/schedule_spec.h"
#include "runs/training_length.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr double kDefaultBranchDecay = 0.1;

// Returns "; the nearest are 11500 and 12500", or "" without steps.
std::string NearestSteps(const std::vector<int64_t>& steps, int64_t step) {
  std::optional<int64_t> below, above;
  for (const int64_t s : steps) {
    if (s < step) below = std::max(below.value_or(s), s);
    if (s > step) above = std::min(above.value_or(s), s);
  }
  if (below && above) return absl::StrCat("; the nearest are ", *below, " and ", *above);
  if (below || above) return absl::StrCat("; the nearest is ", below ? *below : *above);
  return "";
}

absl::Status Refused(const char* field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field,
                   ": got a value for a branch, expected the value of the run that it "
                   "continues; leave it unset"));
}

// Rejects settings that the checkpoint fixes: model, data, what is trained, and the learning rate
// so far.
absl::Status CheckAsked(const v1::RunSpec& asked) {
  v1::OptimizerConfig optimizer = asked.optimizer();
  optimizer.clear_decay();
  optimizer.clear_final_lr_ratio();
  if (optimizer.schedule() == v1::WSD) optimizer.clear_schedule();
  const std::pair<bool, const char*> fields[] = {
      {!asked.dataset_dir().empty(), "dataset_dir"},
      {asked.datasets_size() > 0, "datasets"},
      {asked.share_phases_size() > 0, "share_phases"},
      {asked.has_model(), "model"},
      {optimizer.ByteSizeLong() > 0, "optimizer (other than decay and final_lr_ratio)"},
      {asked.has_upcycling(), "upcycling"},
      {asked.batch().has_global_batch_size(), "batch.global_batch_size"},
      {asked.batch().has_first_batch_size(), "batch.first_batch_size"},
      {asked.batch().has_warmup(), "batch.warmup"},
      {asked.has_num_steps(), "num_steps"},
      {asked.has_length(), "length"},
      {asked.seed() != 0, "seed"},
      {!asked.init_from().empty(), "init_from"},
      {asked.has_growth(), "growth"},
      {asked.has_finetuning(), "finetuning"},
  };
  for (const auto& [is_set, field] : fields) {
    if (is_set) return Refused(field);
  }
  return absl::OkStatus();
}

// The batch grows in multiples of the ranks, and the data order follows from it.
absl::Status CheckSameRanks(const v1::RunSpec& source, const v1::RunSpec& asked) {
  if (!source.batch().has_warmup() || !asked.has_world_size() ||
      asked.world_size() == source.world_size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("world_size: got ", asked.world_size(),
                   " for a branch of a run whose batch grows, expected ", source.world_size(),
                   ", its ranks, from which the order of the data follows; leave it unset"));
}

// Returns FailedPrecondition, with the allowed steps, unless the learning rate of the run is
// constant at `step`.
absl::Status CheckStable(const v1::RunSpec& source, int64_t step) {
  const v1::LearningRateSchedule schedule = source.optimizer().schedule();
  if (schedule != v1::WSD && schedule != v1::CONSTANT) {
    return absl::FailedPreconditionError(
        absl::StrCat("branch: the run has schedule ", v1::LearningRateSchedule_Name(schedule),
                     ", expected WSD or CONSTANT, whose learning rate is constant after warm-up"));
  }
  const int64_t first = WarmupSteps(source), last = source.num_steps() - DecaySteps(source);
  if (first <= step && step <= last) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("branch: got step ", step, ", expected ", first, " to ", last,
                   ", where the learning rate of the run is constant"));
}

// Returns the number of steps of a branch at `step`.
absl::StatusOr<int64_t> BranchSteps(const v1::TrainingLength& decay, int64_t step) {
  if (!decay.has_fraction()) return step + decay.steps();
  const double whole = std::ceil(static_cast<double>(step) / (1.0 - decay.fraction()) - 1e-9);
  if (whole < 4294967296.0) return static_cast<int64_t>(whole);
  return absl::InvalidArgumentError(absl::StrCat("optimizer.decay: got the share ",
                                                 decay.fraction(), ", which makes ", whole,
                                                 " steps, expected at most 2^32; lower it"));
}

// A branch has both warm-ups of its source whole.
absl::Status CheckHoldsWarmups(int64_t num_steps, int64_t dense_steps, int64_t growth_steps) {
  const auto too_short = [&](const std::string& expected) {
    return absl::InvalidArgumentError(absl::StrCat("branch: got ", num_steps, " steps, expected ",
                                                   expected, "; branch later or decay longer"));
  };
  if (dense_steps > 0 && num_steps <= dense_steps) {
    return too_short(absl::StrCat("more than the ", dense_steps, " of the dense warm-up"));
  }
  if (num_steps >= growth_steps) return absl::OkStatus();
  return too_short(absl::StrCat("at least the ", growth_steps, " over which the batch grows"));
}

absl::Status LinkOrCopy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  return error ? SystemError("copy", from, error.value()) : absl::OkStatus();
}

// Stores the path of the base of `partial` again where it would lead elsewhere from `staging`: a
// path within a home is relative, and `staging` may be in another home than what was copied.
absl::Status StoreBase(const v1::PartialCheckpoint& partial, const fs::path& staging) {
  ASSIGN_OR_RETURN(const CheckpointState copy, ReadCheckpointState(staging));
  if (copy.partial.base().checkpoint() == partial.base().checkpoint()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(staging));
  for (ManifestEntry& entry : manifest.files) {
    if (entry.name != kFinetuningFile) continue;
    // Replaces the hard link: the file of the source stays as it is.
    ASSIGN_OR_RETURN(
        entry, WriteFileForManifest(staging / kFinetuningFile,
                                    ConfigText(StoredPartial(partial, staging)), entry.records));
  }
  return manifest.Save(staging);
}

}  // namespace

absl::StatusOr<BranchPoint> ParseBranchPoint(const std::string& text) {
  const size_t at = text.rfind('@');
  BranchPoint point;
  if (at != std::string::npos && at > 0 && absl::SimpleAtoi(text.substr(at + 1), &point.step) &&
      point.step > 0) {
    point.run = text.substr(0, at);
    return point;
  }
  return absl::InvalidArgumentError(absl::StrCat("branch: got \"", text.substr(0, 80),
                                                 "\", expected RUN@STEP, such as "
                                                 "run-000001@12000"));
}

absl::StatusOr<int64_t> FirstStep(const v1::RunSpec& spec) {
  if (spec.branch_from().empty()) return 0;
  ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(spec.branch_from()));
  return point.step;
}

absl::StatusOr<CheckpointRetention> RetentionOf(const v1::RunSpec& spec) {
  CheckpointRetention retention;
  retention.keep_last = spec.checkpoint().keep_last();
  retention.keep_every_steps = spec.checkpoint().keep_every_steps();
  if (spec.spikes().policy() == v1::ROLLBACK) {
    retention.regular_steps = spec.checkpoint().every_steps();
    ASSIGN_OR_RETURN(retention.branch_step, FirstStep(spec));
  }
  return retention;
}

absl::StatusOr<fs::path> FindBranchCheckpoint(const RunDirectory& run, int64_t step) {
  ASSIGN_OR_RETURN(std::vector<int64_t> steps, CheckpointSteps(run.checkpoints()));
  if (std::find(steps.begin(), steps.end(), step) != steps.end()) {
    return CheckpointPath(run.checkpoints(), step);
  }
  std::string others = "; it has none yet";
  if (!steps.empty()) {
    const absl::StatusOr<v1::RunSpec> spec = run.ReadSpec();
    if (spec.ok()) std::erase_if(steps, [&](int64_t s) { return !CheckStable(*spec, s).ok(); });
    others = steps.empty() ? "; it has none where its learning rate is constant, as a branch needs"
                           : NearestSteps(steps, step);
  }
  return absl::NotFoundError(absl::StrCat("branch: ", run.root().filename().string(),
                                          " has no checkpoint of step ", step, others,
                                          "; checkpoint.keep_every_steps keeps more"));
}

absl::StatusOr<v1::RunSpec> BranchSpec(const v1::RunSpec& source, int64_t step,
                                       const v1::RunSpec& asked) {
  RETURN_IF_ERROR(CheckAsked(asked));
  RETURN_IF_ERROR(CheckSameRanks(source, asked));
  RETURN_IF_ERROR(CheckStable(source, step));
  v1::RunSpec trained_on = source;
  ASSIGN_OR_RETURN(const std::vector<DatasetInfo> datasets, ReadDatasets(&trained_on));
  const DatasetInfo data = CombinedInfo(datasets);
  v1::TrainingLength decay = asked.optimizer().decay();
  if (!asked.optimizer().has_decay()) decay.set_fraction(kDefaultBranchDecay);
  ASSIGN_OR_RETURN(decay, ResolveLength("optimizer.decay", decay,
                                        {.global_batch_size = source.batch().global_batch_size(),
                                         .sequence_length = data.sequence_length,
                                         .num_instances = data.num_instances}));
  ASSIGN_OR_RETURN(const int64_t num_steps, BranchSteps(decay, step));
  if (num_steps <= step) {
    return absl::InvalidArgumentError(
        "optimizer.decay: got 0 steps, expected at least 1: a branch consists of its decay");
  }
  const int64_t warmup = WarmupSteps(source), dense = DenseSteps(source);
  RETURN_IF_ERROR(CheckHoldsWarmups(num_steps, dense, BatchScheduleOf(source).growth_steps));
  v1::RunSpec branch = source;
  if (asked.has_launch()) {
    branch.clear_launch();
    branch.clear_world_size();
  }
  // Other ranks share the cores of a machine in another way.
  if (asked.has_launch() || (asked.has_world_size() && asked.world_size() != source.world_size())) {
    branch.clear_threads_per_rank();
  }
  // MergeFrom would add the unit of one length to that of another.
  if (asked.validation().has_every()) branch.mutable_validation()->clear_every();
  branch.MergeFrom(asked);
  if (asked.name().empty()) branch.set_name(absl::StrCat(source.name(), "@", step));
  // A share of the run would be another number of steps here.
  branch.set_num_steps(num_steps);
  branch.mutable_optimizer()->set_schedule(v1::WSD);
  branch.mutable_optimizer()->mutable_warmup()->Clear();
  branch.mutable_optimizer()->mutable_warmup()->set_steps(warmup);
  branch.mutable_optimizer()->mutable_decay()->Clear();
  branch.mutable_optimizer()->mutable_decay()->set_steps(num_steps - step);
  branch.mutable_upcycling()->set_dense_fraction(static_cast<double>(dense) /
                                                 static_cast<double>(num_steps));
  if (source.growth().first() > 0) {
    branch.mutable_growth()->set_until(source.growth().until() *
                                       static_cast<double>(source.num_steps()) /
                                       static_cast<double>(num_steps));
  }
  if (source.batch().has_warmup()) {
    branch.set_world_size(source.world_size());  // even with another launch
    branch.mutable_batch()->mutable_warmup()->Clear();
    branch.mutable_batch()->mutable_warmup()->set_steps(
        StepsOf(source.batch().warmup(), source.num_steps()));
  }
  branch.clear_share_phases();
  for (const v1::SharePhase& phase : source.share_phases()) {
    const int64_t after = StepsOf(phase.after(), source.num_steps());
    if (after >= num_steps) break;
    v1::SharePhase* const kept = branch.add_share_phases();
    *kept->mutable_shares() = phase.shares();
    kept->mutable_after()->set_steps(after);
  }
  return branch;
}

absl::Status CopyBranchCheckpoint(const fs::path& checkpoint, const RunDirectory& branch) {
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(checkpoint));
  const fs::path target = CheckpointPath(branch.checkpoints(), state.step);
  std::error_code error;
  if (fs::exists(target, error)) return absl::OkStatus();
  const fs::path staging = StagingPath(branch.checkpoints(), state.step, "branch");
  fs::remove_all(staging, error);
  RETURN_IF_ERROR(MakeDirectories(staging));
  fs::directory_iterator file(checkpoint, error), end;
  for (; !error && file != end; file.increment(error)) {
    RETURN_IF_ERROR(LinkOrCopy(file->path(), staging / file->path().filename()));
  }
  if (error) return SystemError("list", checkpoint, error.value());
  RETURN_IF_ERROR(VerifyCheckpoint(staging));
  RETURN_IF_ERROR(StoreBase(state.partial, staging));
  return PublishCheckpoint(branch.checkpoints(), state.step, staging);
}

}  // namespace braid
