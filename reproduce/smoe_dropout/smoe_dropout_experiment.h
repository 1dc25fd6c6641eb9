// The experiment of docs/reproduction/smoe_dropout.md.
#ifndef BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_EXPERIMENT_H_
#define BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_EXPERIMENT_H_

#include "reproduce/experiment.h"

namespace braid {

const Experiment& SmoeDropoutExperiment();

}  // namespace braid

#endif  // BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_EXPERIMENT_H_
