// Runs the training loop in child processes that are killed, or whose file system fails, at a
// selected point.
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

// A fault at one place in a run: the n-th event of a name. Events are the collective calls of each
// rank (before and after each), its clock reads, and every system call that changes a file of the
// run. Names omit step numbers and attempts, so that names and counts hardly depend on timing.
struct Fault {
  std::string event;
  int64_t occurrence = 1;
  // The thread that reaches the place stops there, and the process is killed this much later, as
  // ranks on other machines continue until the launcher ends them. 0: at once.
  int64_t linger_ms = 0;
  // When positive: the process is killed this long after the first step began, instead.
  int64_t after_us = 0;
  // When not 0: instead of a kill, this call and all later ones that change files in the same
  // directory fail with this errno, except removals.
  int error = 0;
};

struct ChildResult {
  bool killed = false;
  // The status of the first rank that failed.
  absl::Status status;
  // Number of occurrences of each event, when not killed.
  std::map<std::string, int64_t> events;
};

// Trains in a forked process, with the ranks as threads; `prepare` runs in it first. The calling
// process must have no other threads and must not have used the tensor library.
ChildResult TrainInChild(
    const RunDirectory& run, const v1::RunSpec& spec, const Fault& fault,
    const std::function<void()>& prepare = [] {});

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_FAULTY_RUN_H_
