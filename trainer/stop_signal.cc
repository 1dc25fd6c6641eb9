#include "trainer/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace braid {
namespace {

volatile std::sig_atomic_t g_stop = 0;

void Handle(int) { g_stop = 1; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = Handle;
  // System calls restart after the signal, so that a checkpoint write in progress continues.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  // When the reader of the log is gone, writes to it fail; the run continues.
  std::signal(SIGPIPE, SIG_IGN);
}

bool StopSignaled() { return g_stop != 0; }

}  // namespace braid
