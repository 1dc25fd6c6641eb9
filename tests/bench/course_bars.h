// Figures of the course of training: the price of a mixture, and of validation.
#ifndef BRAID_TESTS_BENCH_COURSE_BARS_H_
#define BRAID_TESTS_BENCH_COURSE_BARS_H_

#include <cstdint>

namespace braid {

// A step with data of three datasets, and one with data of a single dataset of the same size, of
// two equal models. A step reads its batch, trains on it with AdamW and appends its metrics. The
// two alternate, and take turns in being the first; figures are medians. Processor time is hardly
// changed by other programs.
struct MixtureFigures {
  double processor_ratio = 0, wall_ratio = 0;
  double step_seconds = 0;  // wall time, one dataset
};
MixtureFigures MeasureMixture(int rounds);

// A run with a model of four merged experts that validates every `every` steps on the default
// number of windows of two domains.
struct ValidationFigures {
  int64_t windows = 0;
  double share = 0;             // part of the time of steps and validations
  double forecast = 0;          // what CostOfValidation expects
  double checkpoint_share = 0;  // part of the time that checkpoints, one per best loss, stall
};
ValidationFigures MeasureValidation(int64_t num_steps, int64_t every);

}  // namespace braid

#endif  // BRAID_TESTS_BENCH_COURSE_BARS_H_
