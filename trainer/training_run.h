// One attempt to train in a run directory, from reading run.textproto to
// writing exit.json.
#ifndef BRAID_TRAINER_TRAINING_RUN_H_
#define BRAID_TRAINER_TRAINING_RUN_H_

#include <functional>

#include "runs/run_directory.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// Called by every rank. Progress goes to stdout, errors to stderr; exit.json
// says how it ended. Returns kExitDone, kExitStopped or, after aborting the
// other ranks, kExitFailed. Asked to stop by `stop_requested` or stop.json. A rank whose
// BRAID_RUN_NONCE is not that of attempt.json any more ends the process with kExitFenced.
int RunTraining(const RunDirectory& directory, Communicator& communicator,
                const std::function<bool()>& stop_requested);

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_RUN_H_
