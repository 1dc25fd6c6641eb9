#include "trainer/training_loop.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "model/kernels/phase_times.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "trainer/checkpoint_agreement.h"
#include "trainer/progress_line.h"
#include "trainer/schedule.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

constexpr double kSecondsBetweenLines = 10;

// Returns a name that differs between processes on all hosts.
std::string NewAttempt() { return RandomId(16); }

Schedule ScheduleOf(const v1::RunSpec& spec) {
  const double warmup = spec.optimizer().warmup_fraction() * static_cast<double>(spec.num_steps());
  return {.peak = spec.optimizer().learning_rate(),
          .warmup_steps = static_cast<int64_t>(std::ceil(warmup - 1e-9)),
          .num_steps = spec.num_steps(),
          .final_ratio = spec.optimizer().final_lr_ratio()};
}

ExpertGrowth GrowthOf(const v1::RunSpec& spec) {
  const double steps = spec.growth().until() * static_cast<double>(spec.num_steps());
  return {.first = spec.growth().first(),
          .last = spec.growth().last(),
          .steps = static_cast<int64_t>(std::ceil(steps - 1e-9))};
}

}  // namespace

TrainingLoop::TrainingLoop(RunDirectory directory, v1::RunSpec spec, LoopEnvironment environment)
    : directory_(std::move(directory)),
      spec_(std::move(spec)),
      environment_(std::move(environment)),
      meter_(spec_.world_size(), environment_.peak_gflops),
      heartbeat_(directory_, environment_.communicator->rank(), environment_.nonce,
                 environment_.wall_clock ? environment_.wall_clock : environment_.now,
                 spec_.supervision().slow_rank_steps()) {
  BRAID_CHECK(environment_.now) << "incomplete environment";
}

absl::StatusOr<TrainingOutcome> TrainingLoop::Run() {
  absl::StatusOr<TrainingOutcome> outcome = RunToEnd();
  // An agreed error is known to all ranks, so they can complete the checkpoint in progress
  // together. It dates from before the error and spares the next attempt some work.
  if (IsAgreed(outcome.status()) && writer_ != nullptr) (void)writer_->Finish();
  return outcome;
}

absl::StatusOr<TrainingOutcome> TrainingLoop::RunToEnd() {
  heartbeat_.ShowPhases();
  if (environment_.before_beat) heartbeat_.BeatInBackground(environment_.before_beat);
  RETURN_IF_ERROR(Open());
  RETURN_IF_ERROR(Restore());
  RETURN_IF_ERROR(CompareWithOthers());
  own_weights_.Remember(state_);
  heartbeat_.BeginSteps();
  while (!done()) {
    RETURN_IF_ERROR(UpcycleIfDue());
    RETURN_IF_ERROR(SetActiveExperts());
    ASSIGN_OR_RETURN(const v1::StepMetrics metrics, Step());
    heartbeat_.BeginSteps();
    RETURN_IF_ERROR(Record(metrics));
    ASSIGN_OR_RETURN(const bool stop, AgreeOnStep());
    if (stop || CheckpointDue()) RETURN_IF_ERROR(Save(/*wait=*/stop || done()));
    if (stop && !done()) return TrainingOutcome::kInterrupted;
  }
  return TrainingOutcome::kComplete;
}

// Exchanges, in one message per step, whether any rank wants to stop and whether the checkpoint in
// progress can advance. Both must be decided by all ranks alike: a rank that stopped or advanced
// alone would leave the others waiting in a collective.
absl::StatusOr<bool> TrainingLoop::AgreeOnStep() {
  double sums[] = {environment_.stop_requested() ? 1.0 : 0.0, writer_->Ready() ? 1.0 : 0.0};
  RETURN_IF_ERROR(environment_.communicator->AllReduceSum(std::span<double>(sums)));
  if (sums[1] == environment_.communicator->world_size()) {
    const ScopedPhase phase(Phase::kCheckpoint);
    RETURN_IF_ERROR(writer_->Advance());
  }
  return sums[0] > 0;
}

// Set-up errors are usually seen either by all ranks or by a single one; in both cases all ranks
// end with the same message.
absl::Status TrainingLoop::Open() {
  RETURN_IF_ERROR(AgreeOnStatus(*environment_.communicator, OpenOnThisRank()));
  ASSIGN_OR_RETURN(reducer_, GradientReducer::Create(spec_.optimizer_sharding(), spec_.reduction(),
                                                     *environment_.communicator));
  return absl::OkStatus();
}

absl::Status TrainingLoop::OpenOnThisRank() {
  const int world_size = environment_.communicator->world_size();
  if (world_size != spec_.world_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("run.textproto says world_size: ", spec_.world_size(), ", but ", world_size,
                     " ranks were started; start it with 'mpirun -n ", spec_.world_size(), "'"));
  }
  // Rank 0 verifies for all: the ranks read the same files.
  if (leads()) RETURN_IF_ERROR(VerifyDataset(spec_.dataset_dir()));
  ASSIGN_OR_RETURN(dataset_, ReadDatasetInfo(spec_.dataset_dir()));
  const std::filesystem::path prefix = std::filesystem::path(spec_.dataset_dir()) / "instances";
  ASSIGN_OR_RETURN(loader_, DataLoader::Open(prefix, dataset_));
  if (loader_->num_instances() != dataset_.num_instances || dataset_.num_instances == 0) {
    return absl::DataLossError(absl::StrCat(prefix.string(), ".idx has ", loader_->num_instances(),
                                            " instances, dataset.json says ",
                                            dataset_.num_instances));
  }
  schedule_.emplace(dataset_.key, spec_.seed(), dataset_.num_instances,
                    spec_.batch().global_batch_size());
  return absl::OkStatus();
}

// Runs before any rank writes. Files that cannot be removed only take space, so errors are
// warnings.
void TrainingLoop::ClearLeftovers() {
  if (!leads()) return;
  const absl::Status status = RemoveLeftovers(directory_.checkpoints());
  if (!status.ok()) *environment_.warnings << status.message() << std::endl;
}

absl::Status TrainingLoop::OpenWriter() {
  ASSIGN_OR_RETURN(std::string attempt, BroadcastText(*environment_.communicator, NewAttempt(), 0));
  CheckpointWriterSettings settings;
  settings.checkpoints = directory_.checkpoints();
  settings.tokenizer = directory_.tokenizer();
  settings.keep_last = spec_.checkpoint().keep_last();
  settings.attempt = std::move(attempt);
  settings.before_publish = [this] { return BeforePublish(); };
  settings.before_rotate = [this] { return CheckOwned(); };
  writer_ = std::make_unique<CheckpointWriter>(environment_.communicator, std::move(settings));
  return absl::OkStatus();
}

absl::Status TrainingLoop::CheckOwned() const {
  if (!environment_.superseded()) return absl::OkStatus();
  return absl::AbortedError("superseded: another attempt to train this run has started");
}

// Runs on the checkpoint thread of rank 0. Flushes metrics.jsonl first: after a power cut the log
// must reach at least to the step of the checkpoint, because a resume never repeats earlier steps.
absl::Status TrainingLoop::BeforePublish() const {
  RETURN_IF_ERROR(CheckOwned());
  return metrics_->Sync();
}

absl::Status TrainingLoop::Restore() {
  ClearLeftovers();
  ASSIGN_OR_RETURN(const auto checkpoint,
                   AgreeOnNewestGoodCheckpoint(*environment_.communicator, directory_.checkpoints(),
                                               *environment_.warnings));
  const int rank = environment_.communicator->rank();
  auto state = checkpoint.has_value() ? RestoreState(*checkpoint, spec_, dataset_.key, rank)
                                      : InitialState(spec_, rank);
  RETURN_IF_ERROR(AgreeOnStatus(*environment_.communicator, state.status()));
  state_ = *std::move(state);
  RETURN_IF_ERROR(OpenWriter());
  heartbeat_.SetStep(state_.step);
  RETURN_IF_ERROR(heartbeat_.Beat(/*always=*/true));
  if (!leads()) return absl::OkStatus();
  if (checkpoint.has_value()) RETURN_IF_ERROR(RemovePassedOver());
  RETURN_IF_ERROR(CopyTokenizer());
  ASSIGN_OR_RETURN(metrics_, MetricsLog::Open(directory_.metrics(), state_.step));
  if (done()) {
    *environment_.out << "run already complete: all " << spec_.num_steps() << " steps are done"
                      << std::endl;
  } else if (checkpoint.has_value()) {
    *environment_.out << "resuming after step " << state_.step << " from " << checkpoint->string()
                      << std::endl;
  }
  return absl::OkStatus();
}

// Checkpoints newer than the newest good one are all damaged.
absl::Status TrainingLoop::RemovePassedOver() const {
  RETURN_IF_ERROR(CheckOwned());
  const absl::Status status = RemoveLaterCheckpoints(directory_.checkpoints(), state_.step);
  if (!status.ok()) *environment_.warnings << status.message() << std::endl;
  return absl::OkStatus();
}

absl::Status TrainingLoop::CopyTokenizer() {
  if (std::filesystem::exists(directory_.tokenizer())) return absl::OkStatus();
  const std::filesystem::path source =
      std::filesystem::path(spec_.dataset_dir()) / directory_.tokenizer().filename();
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source));
  return WriteFileAtomically(directory_.tokenizer(), bytes);
}

absl::Status TrainingLoop::UpcycleIfDue() {
  if (state_.upcycled || !UsesExperts(spec_.model()) || state_.step < DenseSteps(spec_)) {
    return absl::OkStatus();
  }
  // The first step with experts may take much longer than a dense one, so it is reported as
  // "opening".
  heartbeat_.ShowOpening();
  ASSIGN_OR_RETURN(state_, UpcycledState(std::move(state_), spec_, *environment_.communicator));
  own_weights_.Remember(state_);
  if (leads()) {
    *environment_.out << "step " << state_.step << ": dense warm-up complete, FFNs copied into "
                      << spec_.model().routing().num_experts() << " experts" << std::endl;
  }
  return absl::OkStatus();
}

// The number follows from the step alone, so a resumed run continues as if it had not stopped.
absl::Status TrainingLoop::SetActiveExperts() {
  if (spec_.growth().first() == 0 || !state_.upcycled) return absl::OkStatus();
  return state_.model->SetActiveExperts(ActiveExperts(GrowthOf(spec_), state_.step));
}

absl::Status TrainingLoop::CompareWithOthers() {
  const ScopedPhase phase(Phase::kCommunication);
  return CompareWeights(state_.step, *state_.model, *environment_.communicator);
}

// Must run before the update: with a sharded optimizer the update replaces the weights that this
// rank does not own, and distributes those it owns, so a flipped bit would reach all ranks.
absl::Status TrainingLoop::CheckWeights() {
  const int64_t every = spec_.weight_check_every_steps();
  if (every <= 0) return absl::OkStatus();
  if ((state_.step + 1) % every == 0) RETURN_IF_ERROR(CompareWithOthers());
  return own_weights_.Check(state_, environment_.communicator->rank());
}

absl::StatusOr<RankBatch> TrainingLoop::LoadBatch() const {
  RankBatch work;
  work.step = state_.step;
  work.seed = spec_.seed();
  work.instances = schedule_->Instances(state_.step, environment_.communicator->rank(),
                                        environment_.communicator->world_size());
  const ScopedPhase phase(Phase::kData);
  ASSIGN_OR_RETURN(work.batch, loader_->Load(work.instances));
  work.micro_batch_size = spec_.batch().micro_batch_size();
  return work;
}

absl::StatusOr<v1::StepMetrics> TrainingLoop::Step() {
  const double begin = environment_.now();
  const bool measure = state_.upcycled && (state_.step + 1) % spec_.routing_every_steps() == 0;
  ASSIGN_OR_RETURN(const RankBatch work, LoadBatch());
  ASSIGN_OR_RETURN(const GradientPass pass,
                   ComputeGradients(work, state_.upcycled, *state_.model, *reducer_,
                                    *environment_.communicator));
  RETURN_IF_ERROR(CheckWeights());
  const double learning_rate = LearningRate(ScheduleOf(spec_), state_.step);
  RETURN_IF_ERROR(UpdateWeights(spec_.optimizer(), learning_rate, pass.gradient_norm, state_,
                                *environment_.communicator));
  if (spec_.weight_check_every_steps() > 0) own_weights_.Remember(state_);
  state_.num_tokens += pass.num_tokens;
  v1::StepMetrics metrics;
  metrics.set_step(state_.step);
  metrics.set_loss(pass.loss);
  metrics.set_loss_after_first_segment(pass.loss_after_first_segment);
  metrics.set_learning_rate(learning_rate);
  metrics.set_gradient_norm(pass.gradient_norm);
  metrics.set_num_tokens(state_.num_tokens);
  metrics.set_upcycled(state_.upcycled);
  metrics.set_balance_loss(pass.balance_loss);
  metrics.set_active_experts(state_.model->config().routing().token().active_experts());
  routing_health_.AddStep(pass.routing);
  if (measure) {
    ASSIGN_OR_RETURN(const std::vector<v1::LayerRouting> layers,
                     routing_health_.Measure(*state_.model, *environment_.communicator));
    metrics.mutable_routing()->Assign(layers.begin(), layers.end());
  }
  metrics.set_time(environment_.now());
  metrics.set_step_seconds(metrics.time() - begin);
  metrics.set_tokens_per_second(static_cast<double>(pass.num_tokens) /
                                std::max(metrics.step_seconds(), 1e-9));
  meter_.Complete(state_.model->config(), &metrics);
  heartbeat_.CompleteStep(state_.step, metrics.step_seconds() - metrics.times().communication());
  return metrics;
}

absl::Status TrainingLoop::Record(const v1::StepMetrics& metrics) {
  RETURN_IF_ERROR(heartbeat_.Beat(/*always=*/done()));
  if (!leads()) return absl::OkStatus();
  RETURN_IF_ERROR(metrics_->Append(metrics));
  if (environment_.on_step) environment_.on_step(metrics);
  if (metrics.time() - last_line_ >= kSecondsBetweenLines || done()) {
    last_line_ = metrics.time();
    *environment_.out << ProgressLine(metrics, spec_.num_steps()) << std::endl;
  }
  return absl::OkStatus();
}

bool TrainingLoop::CheckpointDue() const {
  return done() || state_.step % spec_.checkpoint().every_steps() == 0;
}

// Starts a checkpoint. With `wait`, blocks until it is published, as the end of a run requires.
absl::Status TrainingLoop::Save(bool wait) {
  const ScopedPhase phase(Phase::kCheckpoint);
  RETURN_IF_ERROR(writer_->Start(SourceOf(state_, dataset_.key)));
  return wait ? writer_->Finish() : absl::OkStatus();
}

}  // namespace braid
