// Runs of the training loop in processes of their own that die at a chosen point.
#ifndef BRAID_TESTS_TRAINER_LOOP_KILLED_RUN_H_
#define BRAID_TESTS_TRAINER_LOOP_KILLED_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "trainer/run_directory.h"

namespace braid {

// A place in a run: the n-th event of a name. Events are the collective calls of each rank
// (before and after each), its looks at the clock, and every system call that changes a
// file of the run. Step numbers and attempts are left out of names, so that names and
// counts hardly depend on timing.
struct KillPoint {
  std::string event;
  int64_t occurrence = 1;  // 0: never
  // The thread that comes to the point stops there for good, and the others go on for this
  // long: as ranks on other machines do, until the launcher ends them. 0: all at once.
  int64_t linger_ms = 0;
  // Instead, when positive: so long after the first step began.
  int64_t after_us = 0;
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
ChildResult TrainInChild(const RunDirectory& run, const v1::RunSpec& spec, const KillPoint& point,
                         const std::function<void()>& prepare = [] {});

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_LOOP_KILLED_RUN_H_
