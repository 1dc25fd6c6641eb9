// A bound on how long a process takes to end: for shutdowns that wait for what cannot be cancelled.
#ifndef BRAID_SERVER_EXIT_LIMIT_H_
#define BRAID_SERVER_EXIT_LIMIT_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace braid {

// Of a shutdown that was given up: EX_TEMPFAIL of sysexits.h.
inline constexpr int kGaveUpExitCode = 75;

// Unless it is destroyed within `limit`, calls `last_words` and ends the process at once, without
// destructors, with kGaveUpExitCode.
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
