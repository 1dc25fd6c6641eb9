// Runs of the training loop in processes of their own that die, or whose file system
// fails, at a chosen point.
#ifndef BRAID_TESTS_TRAINER_FAULTY_RUN_H_
#define BRAID_TESTS_TRAINER_FAULTY_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// What happens at a place in a run: the n-th event of a name. Events are the collective
// calls of each rank (before and after each), its looks at the clock, and every system call
// that changes a file of the run. Step numbers and attempts are left out of names, so that
// names and counts hardly depend on timing.
struct Fault {
  std::string event;
  int64_t occurrence = 1;
  // The thread that comes to the place stops there for good, and the process is killed so
  // much later: as ranks on other machines go on until the launcher ends them. 0: at once.
  int64_t linger_ms = 0;
  // Killed so long after the first step began instead, when positive.
  int64_t after_us = 0;
  // Instead of death, when not 0: this call and all later ones that change files in the
  // same directory fail with this errno, except removals.
  int error = 0;
};

struct ChildResult {
  bool killed = false;
  // Of the first rank that failed.
  absl::Status status;
  // How often each event came, when not killed.
  std::map<std::string, int64_t> events;
};

// Trains in a forked process, with the ranks as threads. `prepare` runs in it first. The
// calling process must have no other threads and not have used the tensor library.
ChildResult TrainInChild(
    const RunDirectory& run, const v1::RunSpec& spec, const Fault& fault,
    const std::function<void()>& prepare = [] {});

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_FAULTY_RUN_H_
