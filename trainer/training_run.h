// One attempt to train in a run directory, from reading run.textproto to writing exit.json.
#ifndef BRAID_TRAINER_TRAINING_RUN_H_
#define BRAID_TRAINER_TRAINING_RUN_H_

#include <functional>

#include "runs/run_directory.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// Runs the attempt; called by every rank. Progress goes to stdout, errors to stderr, the result to
// exit.json. Stops on `stop_requested` or stop.json. Returns kExitDone, kExitStopped or, after
// aborting the other ranks, kExitFailed. Ends the process with kExitFenced when BRAID_RUN_NONCE no
// longer matches attempt.json.
int RunTraining(const RunDirectory& directory, Communicator& communicator,
                const std::function<bool()>& stop_requested);

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_RUN_H_
