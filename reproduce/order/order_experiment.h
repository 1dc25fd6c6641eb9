// The experiment of docs/reproduction/order.md.
#ifndef BRAID_REPRODUCE_ORDER_ORDER_EXPERIMENT_H_
#define BRAID_REPRODUCE_ORDER_ORDER_EXPERIMENT_H_

#include "reproduce/experiment.h"

namespace braid {

const Experiment& OrderExperiment();

}  // namespace braid

#endif  // BRAID_REPRODUCE_ORDER_ORDER_EXPERIMENT_H_
