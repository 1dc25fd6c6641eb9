#include "trainer/training_loop.h"

#include <algorithm>
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
#include "runs/branch.h"
#include "runs/checkpoint_directory.h"
#include "runs/expert_growth.h"
#include "runs/run_spec.h"
#include "runs/step_remark.h"
#include "runs/validation_spec.h"
#include "trainer/checkpoint_agreement.h"
#include "trainer/input_means.h"
#include "trainer/layer_choice_shares.h"
#include "trainer/progress_line.h"
#include "trainer/rollback.h"
#include "trainer/schedule.h"
#include "trainer/spike_detector.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

constexpr double kSecondsBetweenLines = 10;

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
    ASSIGN_OR_RETURN(v1::StepMetrics metrics, Step());
    RETURN_IF_ERROR(ValidateIfDue(&metrics));
    heartbeat_.BeginSteps();
    // Before a checkpoint of this step begins, since a resume from it does not repeat the step.
    RETURN_IF_ERROR(Record(metrics));
    ASSIGN_OR_RETURN(const bool stop, AgreeOnStep());
    if (stop || CheckpointDue(metrics)) RETURN_IF_ERROR(Save(/*wait=*/stop || done()));
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
        absl::StrCat("world_size: got ", world_size, " ranks, expected the ", spec_.world_size(),
                     " of run.textproto; start it with 'mpirun -n ", spec_.world_size(), "'"));
  }
  // Rank 0 verifies for all: the ranks read the same files.
  ASSIGN_OR_RETURN(data_, TrainingData::Open(spec_, /*verify=*/leads()));
  if (spec_.validation().has_every()) {
    ASSIGN_OR_RETURN(validation_, Validation::Open(spec_));
    if (leads()) {
      *environment_.out << validation_->CostText(spec_) << std::endl;
    }
  }
  return absl::OkStatus();
}

// Runs before any rank writes. What cannot be removed only takes space, so errors are warnings.
void TrainingLoop::ClearLeftovers() {
  if (!leads()) return;
  const absl::Status status = RemoveLeftovers(directory_.checkpoints());
  if (!status.ok()) *environment_.warnings << status.message() << std::endl;
}

// All ranks of an attempt write to one staging directory. Its name is new, because a rank of an
// earlier attempt may still write on a host that was cut off.
absl::Status TrainingLoop::OpenWriter() {
  ASSIGN_OR_RETURN(std::string attempt, BroadcastText(*environment_.communicator, RandomId(16), 0));
  CheckpointWriterSettings settings;
  settings.checkpoints = directory_.checkpoints();
  settings.tokenizer = directory_.tokenizer();
  ASSIGN_OR_RETURN(settings.retention, RetentionOf(spec_));
  settings.attempt = std::move(attempt);
  settings.before_publish = [this] { return BeforePublish(); };
  settings.before_rotate = [this] { return CheckOwned(); };
  settings.warnings = environment_.warnings;
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
  auto state = checkpoint.has_value() ? RestoreState(*checkpoint, spec_, data_->key(), rank)
                                      : InitialState(spec_, rank);
  RETURN_IF_ERROR(AgreeOnStatus(*environment_.communicator, state.status()));
  state_ = *std::move(state);
  RETURN_IF_ERROR(OpenWriter());
  heartbeat_.SetStep(state_.step);
  RETURN_IF_ERROR(heartbeat_.Beat(/*always=*/true));
  if (!leads()) return absl::OkStatus();
  if (checkpoint.has_value()) RETURN_IF_ERROR(RemovePassedOver());
  RETURN_IF_ERROR(CopyTokenizer());
  ASSIGN_OR_RETURN(metrics_,
                   MetricsLog::Open(directory_.metrics(), state_.step, environment_.warnings));
  if (done()) {
    *environment_.out << "run already complete: "
                      << (stopped_early() ? "stopped early after step " : "all steps are done: ")
                      << state_.step << std::endl;
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
  const ExpertGrowth growth = GrowthOf(spec_.growth(), spec_.num_steps());
  return state_.model->SetActiveExperts(ActiveExperts(growth, state_.step));
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
  const ScopedPhase phase(Phase::kData);
  ASSIGN_OR_RETURN(RankBatch work, data_->Load(state_.step, environment_.communicator->rank(),
                                               environment_.communicator->world_size()));
  work.seed = spec_.seed();
  work.micro_batch_size = spec_.batch().micro_batch_size();
  // The other policies skip values that are not finite, as they skip spikes (JudgeStep).
  work.must_be_finite = spec_.spikes().policy() == v1::CONTINUE;
  return work;
}

absl::StatusOr<v1::StepMetrics> TrainingLoop::Step() {
  const double begin = environment_.now();
  const bool measure = (state_.step + 1) % spec_.routing_every_steps() == 0;
  ASSIGN_OR_RETURN(const RankBatch work, LoadBatch());
  state_.model->SetGatePenalty(state_.gate_penalty);
  // Routing of experts is counted in every step: active_experts covers the steps before as well.
  ASSIGN_OR_RETURN(const GradientPass pass,
                   ComputeGradients(work, state_.upcycled || measure, *state_.model, *reducer_,
                                    *environment_.communicator));
  RETURN_IF_ERROR(CheckWeights());
  const double learning_rate = LearningRate(ScheduleOf(spec_), state_.step);
  v1::StepMetrics metrics = MetricsOfStep(pass, state_);
  metrics.set_learning_rate(learning_rate);
  metrics.set_active_experts(state_.model->config().routing().token().active_experts());
  const auto datasets = data_->LossesOf(work.step, pass.datasets);
  metrics.mutable_datasets()->Assign(datasets.begin(), datasets.end());
  routing_health_.AddStep(pass.routing);
  // Loss and norm have the same bits on every rank (ReduceSums), so all ranks take the same branch,
  // with its collective calls, although no message decides it.
  const SpikeVerdict verdict =
      JudgeStep(spec_.spikes(), state_.spikes, pass.loss, pass.gradient_norm, pass.num_tokens);
  if (verdict.is_spike) *metrics.mutable_spike() = SpikeOf(verdict, metrics, spec_.spikes());
  if (verdict.is_spike && spec_.spikes().policy() != v1::CONTINUE) {
    RETURN_IF_ERROR(SkipSpike(pass, metrics.mutable_spike()));
  } else {
    RETURN_IF_ERROR(TrainOn(pass, learning_rate));
  }
  if (measure) {
    ASSIGN_OR_RETURN(
        const std::vector<v1::LayerChoices> choices,
        LayerChoiceShares(state_.model->config(), pass.layer_choices, *environment_.communicator));
    metrics.mutable_layer_choices()->Assign(choices.begin(), choices.end());
  }
  if (measure && state_.upcycled) {
    ASSIGN_OR_RETURN(const std::vector<v1::LayerRouting> layers,
                     routing_health_.Measure(*state_.model, *environment_.communicator));
    metrics.mutable_routing()->Assign(layers.begin(), layers.end());
  }
  metrics.set_time(environment_.now());
  metrics.set_step_seconds(metrics.time() - begin);
  metrics.set_tokens_per_second(MeasuredTokens(spec_, work, pass) /
                                std::max(metrics.step_seconds(), 1e-9));
  const v1::ModelConfig& model = state_.model->config();
  meter_.Complete(
      FlopsPerToken(model, state_.model->finetuning(), MeansOf(work.batch, pass, model)), &metrics);
  heartbeat_.CompleteStep(state_.step, metrics.step_seconds() - metrics.times().communication());
  return metrics;
}

absl::Status TrainingLoop::TrainOn(const GradientPass& pass, double learning_rate) {
  if (pass.num_tokens == 0) {  // No effect, but the data order stays a function of the step.
    ++state_.step;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(UpdateWeights(spec_.optimizer(), learning_rate, pass.gradient_norm, state_,
                                *environment_.communicator));
  // UpdateWeights has counted the update. Means begin with the experts.
  MoveInputMeans(pass.input_means, state_.num_updates - 1 - state_.dense_updates, *state_.model);
  state_.num_tokens += pass.num_tokens;
  if (state_.upcycled) {
    state_.gate_penalty = NextGatePenalty(state_.gate_penalty, pass.active_experts,
                                          state_.model->config().routing().token());
  }
  RememberStep(spec_.spikes(), pass.loss, pass.gradient_norm, &state_.spikes);
  if (spec_.weight_check_every_steps() > 0) own_weights_.Remember(state_);
  return absl::OkStatus();
}

// Completes a step without its batch: the step counts, so the data order stays a function of the
// step alone. After a rollback the weights are those of an earlier step, and no batch since then
// has had an effect. A resume from that checkpoint meets the same spike and decides again alike.
absl::Status TrainingLoop::SkipSpike(const GradientPass& pass, v1::LossSpike* spike) {
  RETURN_IF_ERROR(AgreeOnStatus(*environment_.communicator, CountSpike(*spike, &state_.spikes)));
  spike->set_first_skipped_step(spike->step());
  spike->set_last_skipped_step(spike->step());
  const int64_t num_tokens = state_.num_tokens + pass.num_tokens;
  if (spike->action() == v1::ROLLBACK) {
    heartbeat_.ShowOpening();
    RETURN_IF_ERROR(writer_->Finish());  // what it writes may be the newest regular checkpoint
    // Spikes in a row are counted through rollbacks, or they would never end a run; the best
    // validation is in the metrics, and its checkpoint is kept.
    const int32_t num_consecutive = state_.spikes.num_consecutive;
    const ValidationHistory validation = state_.validation;
    state_ = TrainingState();         // frees the memory for the state that is read
    state_.step = spike->step() - 1;  // exit.json has it if the state cannot be read
    ASSIGN_OR_RETURN(state_,
                     RollbackState(spec_, spike->step(), directory_.checkpoints(), data_->key(),
                                   *environment_.communicator, *environment_.warnings));
    spike->set_first_skipped_step(state_.step + 1);
    state_.spikes.num_consecutive = num_consecutive;
    state_.validation = validation;
    // The state may be from before the upcycling, or of fewer active experts than this step has.
    state_.step = spike->step() - 1;
    RETURN_IF_ERROR(UpcycleIfDue());
    RETURN_IF_ERROR(SetActiveExperts());
  }
  state_.step = spike->step();
  state_.num_tokens = num_tokens;
  own_weights_.Remember(state_);
  return absl::OkStatus();
}

// Validation takes longer than a step, so it is reported as "opening". Its time belongs to no step.
absl::Status TrainingLoop::ValidateIfDue(v1::StepMetrics* metrics) {
  if (!validation_ || !ValidationIsDue(spec_, state_.step)) return absl::OkStatus();
  heartbeat_.ShowOpening();
  const double begin = environment_.now();
  ASSIGN_OR_RETURN(v1::ValidationMetrics validation,
                   validation_->Score(*state_.model, *environment_.communicator));
  // On every rank: the losses have the same bits, so all ranks save, or stop early, together.
  CompareWithBest(state_.step, spec_.validation().patience(), &state_.validation, &validation);
  validation.set_seconds(environment_.now() - begin);
  (void)TakePhaseSeconds();
  if (leads()) *environment_.out << ValidationLine(state_.step, validation) << std::endl;
  *metrics->mutable_validation() = std::move(validation);
  return absl::OkStatus();
}

// An error here is known to one rank only; the program then ends the others (training_run.cc).
absl::Status TrainingLoop::Record(const v1::StepMetrics& metrics) {
  RETURN_IF_ERROR(heartbeat_.Beat(/*always=*/done()));
  if (!leads()) return absl::OkStatus();
  RETURN_IF_ERROR(metrics_->Append(metrics));
  if (environment_.on_step) environment_.on_step(metrics);
  pace_.Add(metrics);
  if (const std::string remark = StepRemark(metrics); !remark.empty()) {
    *environment_.out << remark << std::endl;
  }
  if (metrics.time() - last_line_ >= kSecondsBetweenLines || done()) {
    last_line_ = metrics.time();
    *environment_.out << ProgressLine(metrics, spec_.num_steps(), pace_) << std::endl;
  }
  return absl::OkStatus();
}

// The same on every rank, as saving is collective.
bool TrainingLoop::CheckpointDue(const v1::StepMetrics& metrics) const {
  const bool best = metrics.validation().best_step() == metrics.step();
  const v1::CheckpointConfig& config = spec_.checkpoint();
  const bool kept = config.keep_every_steps() > 0 && state_.step % config.keep_every_steps() == 0;
  return done() || best || kept || state_.step % config.every_steps() == 0;
}

// Starts a checkpoint. With `wait`, blocks until it is published, as the end of a run requires.
absl::Status TrainingLoop::Save(bool wait) {
  const ScopedPhase phase(Phase::kCheckpoint);
  RETURN_IF_ERROR(writer_->Start(SourceOf(state_, data_->key())));
  return wait ? writer_->Finish() : absl::OkStatus();
}

}  // namespace braid
