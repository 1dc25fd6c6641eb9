// Measures the stages of a small corpus job in a temporary directory, for `braid doctor --bench`.
#ifndef BRAID_CLI_STAGE_BENCH_H_
#define BRAID_CLI_STAGE_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// Seconds of wall time.
struct StageRates {
  double tokenize = 0;            // per byte of text
  double tokenizer_training = 0;  // per MiB of the sample
  double heldout = 0;  // per byte of text and started 32 MiB of held-out text: both comparisons
  double pack = 0;     // per token
};

// Trains a tokenizer on some of the texts, which contain no quotes, backslashes or control
// characters, runs the stages of a job on all of them and compares them with every 32nd as if it
// were held out. num_threads 0: all cores. Errors: those of the stages.
absl::StatusOr<StageRates> MeasureStages(const std::vector<std::string>& texts, int num_threads);

}  // namespace braid

#endif  // BRAID_CLI_STAGE_BENCH_H_
