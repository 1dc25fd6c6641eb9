#include "retrieval/work_slots.h"

#include <chrono>

#include "base/status_macros.h"

namespace braid {

absl::StatusOr<WorkSlots::Slot> WorkSlots::Take(const StopCheck& check) {
  constexpr std::chrono::milliseconds kCheckInterval{50};
  std::unique_lock lock(mutex_);
  while (!returned_.wait_for(lock, kCheckInterval, [&] { return free_ > 0; })) {
    if (check) RETURN_IF_ERROR(check());
  }
  --free_;
  return Slot(this);
}

void WorkSlots::Return() {
  const std::lock_guard lock(mutex_);
  ++free_;
  returned_.notify_one();
}

}  // namespace braid
