// The experiment of docs/reproduction/routers.md.
#ifndef BRAID_REPRODUCE_ROUTERS_ROUTERS_EXPERIMENT_H_
#define BRAID_REPRODUCE_ROUTERS_ROUTERS_EXPERIMENT_H_

#include "reproduce/experiment.h"

namespace braid {

const Experiment& RoutersExperiment();

}  // namespace braid

#endif  // BRAID_REPRODUCE_ROUTERS_ROUTERS_EXPERIMENT_H_
