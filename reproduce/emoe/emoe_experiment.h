// The experiment of docs/reproduction/emoe.md.
#ifndef BRAID_REPRODUCE_EMOE_EMOE_EXPERIMENT_H_
#define BRAID_REPRODUCE_EMOE_EMOE_EXPERIMENT_H_

#include "reproduce/experiment.h"

namespace braid {

const Experiment& EmoeExperiment();

}  // namespace braid

#endif  // BRAID_REPRODUCE_EMOE_EMOE_EXPERIMENT_H_
