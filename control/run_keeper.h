// Sees to it that every run that has not ended has somebody who looks after it: runs go on when
// the program that launched them dies, and the next one adopts them.
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

// Thread-safe. Looks at once, and then every two seconds, at the runs that the store has as active;
// those found to have ended are settled there, so that old runs cost nothing. Not at the first
// look: a run whose launch was cut off long ago looks as if it had ended, and is only to be
// adopted.
class RunKeeper {
 public:
  // Makes sure that a run that has not ended is supervised, or comes to its end.
  using Adopter = std::function<absl::Status(const RunDirectory&)>;

  // `store` outlives this.
  RunKeeper(RunStore* store, Adopter adopt,
            std::chrono::milliseconds interval = std::chrono::seconds(2));
  ~RunKeeper();

  // Looks now; returns when it has.
  void Look();

 private:
  void Loop();
  void LookAt(const RunRecord& record);
  void Settle(const RunRecord& record);

  RunStore* const store_;
  const Adopter adopt_;
  const std::chrono::milliseconds interval_;
  std::mutex look_mutex_;  // one look at a time
  bool looked_ = false;
  // What was last said about a run that could not be adopted: said once, not every two seconds.
  std::map<std::string, std::string> complaints_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_KEEPER_H_
