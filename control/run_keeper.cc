#include "control/run_keeper.h"

#include <iostream>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/launch/launch_lock.h"
#include "control/run_status.h"

namespace braid {

RunKeeper::RunKeeper(RunStore* store, Adopter adopt, std::chrono::milliseconds interval)
    : store_(store), adopt_(std::move(adopt)), interval_(interval), thread_([this] { Loop(); }) {}

RunKeeper::~RunKeeper() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void RunKeeper::Loop() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    Look();
    lock.lock();
    wake_.wait_for(lock, interval_, [this] { return ending_; });
  }
}

void RunKeeper::Look() {
  std::lock_guard lock(look_mutex_);
  // A store that cannot be read now is read the next time.
  const absl::StatusOr<std::vector<RunRecord>> active = store_->Active();
  if (!active.ok()) return;
  for (const RunRecord& record : *active) LookAt(record);
  looked_ = true;
}

void RunKeeper::Settle(const RunRecord& record) {
  const RunDirectory run(record.run_dir);
  // A launch that ended before its directory was made has nothing to lock.
  if (!MakeDirectories(run.root()).ok()) return;
  // Whoever holds it starts the run; what was seen before they began says nothing any more.
  const absl::StatusOr<FileLock> lock = TryLockLaunch(run);
  if (!lock.ok() || !HasEnded(DescribeRun(record, UnixTime()).state())) return;
  store_->Settle(record).IgnoreError();
  complaints_.erase(record.id);
}

void RunKeeper::LookAt(const RunRecord& record) {
  if (looked_ && HasEnded(DescribeRun(record, UnixTime()).state())) return Settle(record);
  const absl::Status adopted = adopt_(RunDirectory(record.run_dir));
  const std::string complaint(adopted.message());
  if (std::exchange(complaints_[record.id], complaint) != complaint && !adopted.ok()) {
    std::cerr << record.id << ": cannot be looked after: " << complaint << std::endl;
  }
}

}  // namespace braid
