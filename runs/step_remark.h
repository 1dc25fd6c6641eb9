// What is remarkable about a step, in words: for the trainer's log and for the events of a run.
#ifndef BRAID_RUNS_STEP_REMARK_H_
#define BRAID_RUNS_STEP_REMARK_H_

#include <string>

#include "braid/v1/training.pb.h"

namespace braid {

// Returns "loss spike: loss 9.31 (z 14.2), ...; batch skipped" for a spike, with the steps whose
// batches have no effect, and what an early stop was decided by; empty for any other step.
std::string StepRemark(const v1::StepMetrics& metrics);

}  // namespace braid

#endif  // BRAID_RUNS_STEP_REMARK_H_
