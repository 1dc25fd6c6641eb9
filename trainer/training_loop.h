// The training loop: runs from the newest good checkpoint, or from the start, to the last step or a
// stop request.
//
//   SingleProcess alone;
//   TrainingLoop loop(RunDirectory(path), spec, {.communicator = &alone});
//   ASSIGN_OR_RETURN(TrainingOutcome outcome, loop.Run());
#ifndef BRAID_TRAINER_TRAINING_LOOP_H_
#define BRAID_TRAINER_TRAINING_LOOP_H_

#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/metrics_log.h"
#include "runs/pace.h"
#include "runs/run_directory.h"
#include "trainer/checkpoint_writer.h"
#include "trainer/gradient_pass.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/rank_heartbeat.h"
#include "trainer/routing_health.h"
#include "trainer/step_metrics.h"
#include "trainer/training_data.h"
#include "trainer/training_state.h"
#include "trainer/validation.h"
#include "trainer/weight_check.h"

namespace braid {

// The environment of the loop: ranks, clocks, output and callbacks.
struct LoopEnvironment {
  // Not owned.
  Communicator* communicator = nullptr;
  // Returns Unix seconds that never step back. Required.
  std::function<double()> now;
  // Returns Unix seconds that other machines can compare with their own clocks, also after this one
  // was suspended. Defaults to `now`.
  std::function<double()> wall_clock = nullptr;
  // Called once per step; true on one rank stops all ranks.
  std::function<bool()> stop_requested = [] { return false; };
  // Receives progress lines, on rank 0.
  std::ostream* out = &std::cout;
  // Peak of matrix products on this rank in GFLOP/s; 0 when unknown.
  double peak_gflops = 0;
  // Called on rank 0 for every completed step, after it was appended to metrics.jsonl.
  std::function<void(const v1::StepMetrics&)> on_step = nullptr;
  // Receives reports of damaged checkpoints, on rank 0.
  std::ostream* warnings = &std::cerr;
  // Identifies the attempt in heartbeats.
  std::string nonce = {};
  // Called on rank 0 before a checkpoint is published or removed; returns true when another attempt
  // owns the run.
  std::function<bool()> superseded = [] { return false; };
  // Called once a second by a background thread, which then writes the heartbeat. When empty, the
  // loop writes heartbeats itself, between steps.
  std::function<void()> before_beat = nullptr;
};

enum class TrainingOutcome { kComplete, kInterrupted };

// One attempt to train a run. Collective: every rank runs the same loop; rank 0 writes metrics, and
// every rank writes its heartbeat and its share of each checkpoint. Requires a resolved spec.
//
// Guarantees: the same spec gives bit-identical weights, however often the run is stopped and
// resumed; another world size gives the same batches.
class TrainingLoop {
 public:
  TrainingLoop(RunDirectory directory, v1::RunSpec spec, LoopEnvironment environment);

  // Trains until the last step or a stop request. Returns errors of the file system, the data, or
  // values that are not finite; no checkpoint is written for the failing step.
  absl::StatusOr<TrainingOutcome> Run();

  // Returns the number of completed steps.
  int64_t step() const { return state_.step; }
  TrainingState& state() { return state_; }

 private:
  absl::StatusOr<TrainingOutcome> RunToEnd();
  absl::Status Open();
  absl::Status OpenOnThisRank();
  absl::Status Restore();
  void ClearLeftovers();
  absl::Status OpenWriter();
  absl::Status CopyTokenizer();
  absl::Status CheckOwned() const;
  absl::Status RemovePassedOver() const;
  absl::Status UpcycleIfDue();
  absl::Status SetActiveExperts();
  absl::Status CompareWithOthers();
  absl::Status CheckWeights();
  absl::StatusOr<v1::StepMetrics> Step();
  absl::Status TrainOn(const GradientPass& pass, double learning_rate);
  absl::Status SkipSpike(const GradientPass& pass, v1::LossSpike* spike);
  absl::Status ValidateIfDue(v1::StepMetrics* metrics);
  absl::StatusOr<RankBatch> LoadBatch() const;
  absl::Status Record(const v1::StepMetrics& metrics);
  absl::StatusOr<bool> AgreeOnStep();
  absl::Status BeforePublish() const;
  absl::Status Save(bool wait);
  bool CheckpointDue(const v1::StepMetrics& metrics) const;
  bool stopped_early() const {
    const int32_t patience = spec_.validation().patience();
    return patience > 0 && state_.validation.num_worse >= patience;
  }
  bool done() const { return state_.step >= spec_.num_steps() || stopped_early(); }
  bool leads() const { return environment_.communicator->rank() == 0; }

  RunDirectory directory_;
  v1::RunSpec spec_;
  LoopEnvironment environment_;
  StepMeter meter_;
  RankHeartbeat heartbeat_;
  std::optional<TrainingData> data_;
  std::optional<Validation> validation_;  // absent when the run does not validate
  OwnWeights own_weights_;
  std::unique_ptr<MetricsLog> metrics_;  // rank 0
  TrainingState state_;
  std::unique_ptr<GradientReducer>
      reducer_;  // destroyed before state_, whose gradients it may send
  RoutingHealth routing_health_;
  double last_line_ = 0;
  Pace pace_;
  std::unique_ptr<CheckpointWriter> writer_;  // destroyed before metrics_, which its thread flushes
};

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_LOOP_H_
