// Ctrl-C as a question the program asks between steps; a second Ctrl-C ends it
// at once.
#ifndef BRAID_RPC_INTERRUPT_H_
#define BRAID_RPC_INTERRUPT_H_

namespace braid {

void CatchInterrupts();
bool Interrupted();
// Whether the interrupt was no Ctrl-C but SIGTERM, which is to end the program.
bool Terminated();

// For a program that an interrupt does not end.
void ForgetInterrupt();

}  // namespace braid

#endif  // BRAID_RPC_INTERRUPT_H_
