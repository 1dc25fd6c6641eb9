// One piece of work at a time on a thread of its own.
//
//   BackgroundTask task;
//   task.Start([&](const std::stop_token& stop) { return Write(stop); });
//   while (!task.finished()) Train();
//   RETURN_IF_ERROR(task.Wait());
#ifndef BRAID_TRAINER_PARALLEL_BACKGROUND_TASK_H_
#define BRAID_TRAINER_PARALLEL_BACKGROUND_TASK_H_

#include <atomic>
#include <functional>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"

namespace braid {

// Used by one thread. The destructor asks the work to stop and waits for it.
class BackgroundTask {
 public:
  using Work = std::function<absl::Status(const std::stop_token& stop)>;

  // Requires that no work is under way. An exception becomes an Internal error.
  void Start(Work work);

  // No work is under way; true before the first Start too.
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  // Waits for the work and returns what it returned: once, then OK.
  absl::Status Wait();

 private:
  absl::Status result_;
  std::atomic<bool> finished_ = true;
  std::jthread thread_;  // last: joined before the rest is gone
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_BACKGROUND_TASK_H_
