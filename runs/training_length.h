// Lengths of training as users give them: steps, tokens, epochs, or shares of a run.
#ifndef BRAID_RUNS_TRAINING_LENGTH_H_
#define BRAID_RUNS_TRAINING_LENGTH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/batch_schedule.h"

namespace braid {

// The sizes of a run by which lengths in tokens and epochs are converted to steps.
struct StepSize {
  int64_t global_batch_size = 1;  // sequences per step
  int64_t sequence_length = 1;    // L, tokens per sequence
  int64_t num_instances = 1;      // sequences of one epoch
  // Schedule of a growing batch, for lengths that start at step 0; growth_steps 0: constant batch.
  BatchSchedule growth = {};
};

// Returns the sequences of a length in tokens or epochs.
double SequencesOf(const v1::TrainingLength& length, const StepSize& size);

// Converts tokens and epochs to steps, rounded up; keeps a share and steps as they are.
// InvalidArgument, which names `field`, unless exactly one unit is set, to a share of at least 0
// and below 1, or to a finite number of at least 0 and at most 2^32 steps.
absl::StatusOr<v1::TrainingLength> ResolveLength(const std::string& field,
                                                 const v1::TrainingLength& length,
                                                 const StepSize& size);

// Returns the steps of a resolved length in a run of `num_steps` steps; a share is rounded up.
int64_t StepsOf(const v1::TrainingLength& resolved, int64_t num_steps);

// Parses "0.2" (a share), "500" or "500steps", "1e9tokens" and "1.5epochs". InvalidArgument names
// `what`, the option or field.
absl::StatusOr<v1::TrainingLength> ParseTrainingLength(const std::string& what,
                                                       const std::string& text);

}  // namespace braid

#endif  // BRAID_RUNS_TRAINING_LENGTH_H_
