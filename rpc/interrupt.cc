#include "rpc/interrupt.h"

#include <signal.h>

#include <atomic>

namespace braid {
namespace {

// Lock-free, so the signal handler may write it.
std::atomic<int> newest_signal = 0;

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { newest_signal = number; };
  // The first signal restores the default action, so the second one ends the program.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return newest_signal != 0; }

bool Terminated() { return newest_signal == SIGTERM; }

void ForgetInterrupt() { newest_signal = 0; }

}  // namespace braid
