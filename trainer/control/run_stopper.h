// Sees requests to stop through, in the background: signals ranks as they
// appear, and ends mpirun when a run does not stop in time.
#ifndef BRAID_TRAINER_CONTROL_RUN_STOPPER_H_
#define BRAID_TRAINER_CONTROL_RUN_STOPPER_H_

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "trainer/run_directory.h"

namespace braid {

// Thread-safe. Requests are recorded in the run directory; those still open when
// the stopper is destroyed are taken up by the next one that is asked about the run.
class RunStopper {
 public:
  RunStopper();
  ~RunStopper();

  // Returns once the request is recorded and the present ranks are signalled.
  // Asking again is harmless. Errors of RecordStopRequest and SignalRanks.
  absl::Status Stop(const RunDirectory& run);

 private:
  void Work();
  absl::Status Advance(const RunDirectory& run, std::set<int64_t>* signalled);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  // Ranks that were signalled, of each run that is being stopped.
  std::map<std::filesystem::path, std::set<int64_t>> stopping_;
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_RUN_STOPPER_H_
