// A limit on concurrent work: other calls wait and hold only their request.
//
//   ASSIGN_OR_RETURN(const WorkSlots::Slot slot, slots.Take(check));
//   ... work ...
#ifndef BRAID_RETRIEVAL_WORK_SLOTS_H_
#define BRAID_RETRIEVAL_WORK_SLOTS_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "retrieval/parallel_for.h"  // StopCheck

namespace braid {

// A semaphore whose wait can be cancelled. Thread-safe.
class WorkSlots {
 public:
  struct GiveBack {
    void operator()(WorkSlots* slots) const { slots->Return(); }
  };
  using Slot = std::unique_ptr<WorkSlots, GiveBack>;

  explicit WorkSlots(int count) : free_(count) {}

  // Waits for a slot, which the destruction of the result releases. Errors: those of `check`, which
  // is called twenty times a second.
  absl::StatusOr<Slot> Take(const StopCheck& check);

 private:
  void Return();

  std::mutex mutex_;
  std::condition_variable returned_;
  int free_;  // guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORK_SLOTS_H_
