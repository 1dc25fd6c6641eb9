// The measurements of an experiment whose losses are known.
#ifndef BRAID_TESTS_REPRODUCE_FABRICATED_EVIDENCE_H_
#define BRAID_TESTS_REPRODUCE_FABRICATED_EVIDENCE_H_

#include <functional>

#include "reproduce/experiment.h"

namespace braid {

// The held-out loss of a run in nats per token, with a number of experts per token.
using LossOfRun = std::function<double(const PlannedRun& run, int active_experts)>;

// Returns measurements of all runs of --full in three domains of unequal size, whose losses differ
// by 1 nat. Windows have errors that all runs share, and small ones of their own. Training losses
// are `gap` below that of the main scoring; runs that validate do so at every tenth.
Evidence FabricateEvidence(const Experiment& experiment, const LossOfRun& loss_of_run,
                           const std::function<double(const PlannedRun&)>& gap = {});

}  // namespace braid

#endif  // BRAID_TESTS_REPRODUCE_FABRICATED_EVIDENCE_H_
