// The request to stop that a scheduler or a person sends as a signal.
#ifndef BRAID_TRAINER_STOP_SIGNAL_H_
#define BRAID_TRAINER_STOP_SIGNAL_H_

namespace braid {

// From now on SIGTERM, SIGINT and SIGUSR1 (which mpirun passes on to every rank)
// only set a flag, and a closed output pipe does not end the process.
void CatchStopSignals();

// One of them has arrived.
bool StopSignalled();

}  // namespace braid

#endif  // BRAID_TRAINER_STOP_SIGNAL_H_
