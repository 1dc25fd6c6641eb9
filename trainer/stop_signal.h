// Signals with which a scheduler or a user requests that the run stops.
#ifndef BRAID_TRAINER_STOP_SIGNAL_H_
#define BRAID_TRAINER_STOP_SIGNAL_H_

namespace braid {

// Installs handlers: from now on SIGTERM, SIGINT and SIGUSR1 (which mpirun forwards to every rank)
// only set a flag, and a closed output pipe does not end the process.
void CatchStopSignals();

// Returns whether one of these signals has arrived.
bool StopSignaled();

}  // namespace braid

#endif  // BRAID_TRAINER_STOP_SIGNAL_H_
