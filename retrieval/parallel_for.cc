#include "retrieval/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kCheckInterval{100};

std::atomic<int> retrieval_threads{0};

// The workers of one ParallelForUntil, and the means by which the calling thread waits for them.
class Workers {
 public:
  Workers(int64_t n, int64_t grain, const StoppableBody& body)
      : n_(n), grain_(grain), body_(body) {}

  absl::Status Run(int64_t num_threads, const StopCheck& check) {
    running_ = num_threads;
    {
      std::vector<std::jthread> threads;
      for (int64_t i = 0; i < num_threads; ++i) threads.emplace_back([this] { Work(); });
      Watch(check);
    }
    if (failure_) std::rethrow_exception(failure_);
    return stopped_;
  }

 private:
  void Work() {
    try {
      for (int64_t begin; !stopping_ && (begin = next_.fetch_add(grain_)) < n_;) {
        body_(begin, std::min(begin + grain_, n_), stopping_);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stopping_ = true;
    }
    const std::lock_guard lock(mutex_);
    --running_;
    done_.notify_one();
  }

  void Watch(const StopCheck& check) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, kCheckInterval, [&] { return running_ == 0; })) {
      if (!check || stopping_) continue;
      lock.unlock();
      stopped_ = check();
      if (!stopped_.ok()) stopping_ = true;
      lock.lock();
    }
  }

  const int64_t n_, grain_;
  const StoppableBody& body_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopping_{false};
  absl::Status stopped_;  // accessed by the calling thread only
  std::mutex mutex_;
  std::condition_variable done_;
  int64_t running_ = 0;         // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_
};

}  // namespace

void SetRetrievalThreads(int num_threads) {
  BRAID_CHECK(num_threads >= 0) << num_threads;
  retrieval_threads = num_threads;
}

int RetrievalThreads() {
  const int chosen = retrieval_threads;
  return chosen > 0 ? chosen : std::max(1u, std::thread::hardware_concurrency());
}

void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  BRAID_CHECK(grain > 0) << grain;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // guarded by mutex
  const auto work = [&] {
    try {
      for (int64_t begin; (begin = next.fetch_add(grain)) < n;) {
        body(begin, std::min(begin + grain, n));
      }
    } catch (...) {
      next = n;  // blocks not yet started are skipped
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int64_t num_blocks = (n + grain - 1) / grain;
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min<int64_t>(RetrievalThreads(), num_blocks); ++i) {
      others.emplace_back(work);
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body) {
  return ParallelForUntil(n, grain, check, body, RetrievalThreads());
}

absl::Status ParallelForUntil(int64_t n, int64_t grain, const StopCheck& check,
                              const StoppableBody& body, int64_t num_threads) {
  BRAID_CHECK(grain > 0) << grain;
  if (check) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  const int64_t num_blocks = (n + grain - 1) / grain;
  return Workers(n, grain, body).Run(std::min(num_threads, num_blocks), check);
}

}  // namespace braid
