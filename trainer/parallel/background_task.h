// Runs one task at a time on a background thread.
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

// Returns the status of `work`. An exception in it becomes ResourceExhausted, for memory, or an
// Internal error: one that leaves the function of a thread ends the process at once, before the
// ranks can agree on the error.
absl::Status RunCatching(const std::function<absl::Status()>& work);

// Used from one thread. The destructor requests the task to stop and waits for it.
class BackgroundTask {
 public:
  using Work = std::function<absl::Status(const std::stop_token& stop)>;

  // Starts a task. Requires that none is running. For exceptions in it see RunCatching.
  void Start(Work work);

  // Returns true when no task is running, also before the first Start.
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  // Waits for the task and returns its result; later calls return OK.
  absl::Status Wait();

 private:
  absl::Status result_;
  std::atomic<bool> finished_ = true;
  std::jthread thread_;  // last member: joined before the others are destroyed
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_BACKGROUND_TASK_H_
