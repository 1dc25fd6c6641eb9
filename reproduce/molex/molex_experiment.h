// The experiment of docs/reproduction/molex.md.
#ifndef BRAID_REPRODUCE_MOLEX_MOLEX_EXPERIMENT_H_
#define BRAID_REPRODUCE_MOLEX_MOLEX_EXPERIMENT_H_

#include "reproduce/experiment.h"

namespace braid {

const Experiment& MolexExperiment();

}  // namespace braid

#endif  // BRAID_REPRODUCE_MOLEX_MOLEX_EXPERIMENT_H_
