// The experiment on the ten claims of docs/reproduction/protocol.md.
#ifndef BRAID_REPRODUCE_LORY_LORY_EXPERIMENT_H_
#define BRAID_REPRODUCE_LORY_LORY_EXPERIMENT_H_

#include <vector>

#include "reproduce/experiment.h"

namespace braid {

const Experiment& LoryExperiment();

// Returns the scorings that a run of this experiment needs.
std::vector<PlannedScore> LoryScores(const PlannedRun& run);

}  // namespace braid

#endif  // BRAID_REPRODUCE_LORY_LORY_EXPERIMENT_H_
