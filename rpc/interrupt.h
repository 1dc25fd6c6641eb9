// Cooperative handling of Ctrl-C: programs check Interrupted() between steps. A second Ctrl-C ends
// the program at once.
#ifndef BRAID_RPC_INTERRUPT_H_
#define BRAID_RPC_INTERRUPT_H_

namespace braid {

// Installs the handlers of SIGINT and SIGTERM.
void CatchInterrupts();
// Returns whether a signal has arrived since the start or the last ForgetInterrupt().
bool Interrupted();
// Returns whether the signal was SIGTERM, which should end the program, rather than Ctrl-C.
bool Terminated();

// Resets Interrupted(), for programs that continue after an interrupt.
void ForgetInterrupt();

}  // namespace braid

#endif  // BRAID_RPC_INTERRUPT_H_
