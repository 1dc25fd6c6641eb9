// Ensures that every run that has not ended has a supervisor: runs continue when the program that
// launched them dies, and the next program finds them here.
#ifndef BRAID_CONTROL_RUN_KEEPER_H_
#define BRAID_CONTROL_RUN_KEEPER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "control/run_store.h"
#include "runs/run_directory.h"

namespace braid {

// Checks the active runs of the store immediately and then every two seconds. Runs that have ended
// are settled in the store, so that old runs cost nothing. The first check settles no run: a run
// whose launch was interrupted long ago looks as if it had ended, although it only needs a
// supervisor. Thread-safe.
class RunKeeper {
 public:
  // Ensures that a run that has not ended has a supervisor, or is brought to its end.
  using Supervise = std::function<absl::Status(const RunDirectory&)>;

  // `store` must outlive this object.
  RunKeeper(RunStore* store, Supervise supervise,
            std::chrono::milliseconds interval = std::chrono::seconds(2));
  ~RunKeeper();

  // Checks all active runs and returns when done.
  void Look();

 private:
  void Loop();
  void LookAt(const RunRecord& record);
  void Settle(const RunRecord& record);

  RunStore* const store_;
  const Supervise supervise_;
  const std::chrono::milliseconds interval_;
  std::mutex look_mutex_;  // held during a check
  bool looked_ = false;
  // The last error of each run, which is logged once and not every two seconds.
  std::map<std::string, std::string> logged_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_KEEPER_H_
