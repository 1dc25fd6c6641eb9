#include "trainer/parallel/background_task.h"

#include <exception>
#include <new>
#include <utility>

#include "base/check.h"

namespace braid {

absl::Status RunCatching(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc& e) {
    return absl::ResourceExhaustedError(e.what());
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

void BackgroundTask::Start(Work work) {
  BRAID_CHECK(finished()) << "work is under way";
  if (thread_.joinable()) thread_.join();
  // Relaxed suffices: starting the thread orders this store before the thread's own store.
  finished_.store(false, std::memory_order_relaxed);
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    result_ = RunCatching([&] { return work(stop); });
    finished_.store(true, std::memory_order_release);
  });
}

absl::Status BackgroundTask::Wait() {
  if (thread_.joinable()) thread_.join();
  return std::exchange(result_, absl::OkStatus());
}

}  // namespace braid
