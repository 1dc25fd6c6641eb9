#include "cli/interrupt.h"

#include <signal.h>

#include <atomic>

namespace braid {
namespace {

std::atomic<bool> interrupted = false;

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted; }

void ForgetInterrupt() {
  interrupted = false;
  CatchInterrupts();
}

}  // namespace braid
