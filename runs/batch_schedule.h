// The number of sequences of each step of a run: a pure function of the step.
#ifndef BRAID_RUNS_BATCH_SCHEDULE_H_
#define BRAID_RUNS_BATCH_SCHEDULE_H_

#include <cstdint>

namespace braid {

// A global batch that grows linearly from `first` to `full` sequences over `growth_steps` steps, in
// multiples of `unit`. The default of the last three is a batch that does not grow.
struct BatchSchedule {
  int64_t full = 1;
  int64_t first = full;
  int64_t unit = 1;  // at least 1
  int64_t growth_steps = 0;

  // Returns the sequences of 0-based step t: `full` from step growth_steps on, and before that
  //   first + unit * floor(n t / growth_steps),   n = floor((full - first) / unit)
  int64_t At(int64_t step) const;

  // Returns the sequences of all steps before `step`, in O(log growth_steps) time.
  int64_t Before(int64_t step) const;

  // Returns the fewest steps that read at least `sequences` sequences, up to 2^32; 2^32 + 1 when
  // more are needed.
  int64_t StepsToRead(double sequences) const;
};

}  // namespace braid

#endif  // BRAID_RUNS_BATCH_SCHEDULE_H_
