// The measurements of an experiment on fine-tuning whose losses are known.
#ifndef BRAID_TESTS_REPRODUCE_FABRICATED_TUNING_H_
#define BRAID_TESTS_REPRODUCE_FABRICATED_TUNING_H_

#include <functional>
#include <string>

#include "reproduce/experiment.h"

namespace braid {

// The mean loss of the answers of a fine-tuned model to a task, in nats.
using LossOfTuning = std::function<double(const PlannedRun& run, const std::string& task,
                                          const std::string& scoring)>;

// Returns measurements of all runs of --full, 200 examples a task. Examples have errors that all
// runs share, and small ones of their own. An answer is right if its loss is below 0.6.
Evidence FabricateTuning(const Experiment& experiment, const LossOfTuning& loss_of_tuning);

}  // namespace braid

#endif  // BRAID_TESTS_REPRODUCE_FABRICATED_TUNING_H_
