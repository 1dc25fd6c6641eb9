// A bound on the time that a process takes to end, for shutdowns that wait for work which cannot be
// cancelled.
#ifndef BRAID_SERVER_EXIT_LIMIT_H_
#define BRAID_SERVER_EXIT_LIMIT_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace braid {

// Exit code of a process whose shutdown took too long: EX_TEMPFAIL of sysexits.h.
inline constexpr int kGaveUpExitCode = 75;

// Calls `last_words` and ends the process at once with kGaveUpExitCode, without running
// destructors, unless this object is destroyed within `limit`.
class ExitLimit {
 public:
  ExitLimit(std::chrono::milliseconds limit, std::function<void()> last_words);
  ~ExitLimit();
  ExitLimit(const ExitLimit&) = delete;
  ExitLimit& operator=(const ExitLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_SERVER_EXIT_LIMIT_H_
