#include "server/exit_limit.h"

#include <unistd.h>

#include <utility>

namespace braid {

ExitLimit::ExitLimit(std::chrono::milliseconds limit, std::function<void()> last_words)
    : thread_([this, limit, last_words = std::move(last_words)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [this] { return ended_; })) return;
        // The lock is kept, so a destructor that is called now blocks: the shutdown cannot continue
        // beside the end of the process.
        last_words();
        _exit(kGaveUpExitCode);
      }) {}

ExitLimit::~ExitLimit() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace braid
