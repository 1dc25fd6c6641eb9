#include "control/run_keeper.h"

#include <iostream>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/launch/launch_lock.h"
#include "control/run_status.h"

namespace braid {

RunKeeper::RunKeeper(RunStore* store, Supervise supervise, std::chrono::milliseconds interval)
    : store_(store),
      supervise_(std::move(supervise)),
      interval_(interval),
      thread_([this] { Loop(); }) {}

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
  // If the store cannot be read, the next check reads it again.
  const absl::StatusOr<std::vector<RunRecord>> active = store_->Active();
  if (!active.ok()) return;
  for (const RunRecord& record : *active) LookAt(record);
  looked_ = true;
}

void RunKeeper::Settle(const RunRecord& record) {
  const RunDirectory run(record.run_dir);
  if (!store_->Get(record.id).ok()) return;  // deleted in the meantime
  // The directory of a launch that was interrupted early does not exist yet, and could not be
  // locked.
  if (!MakeDirectories(run.root()).ok()) return;
  // A process that holds the lock is starting the run, so a state that was observed earlier is
  // outdated.
  const absl::StatusOr<FileLock> lock = TryLockLaunch(run);
  if (!lock.ok() || !HasEnded(DescribeRun(record, UnixTime()).state())) return;
  store_->Settle(record).IgnoreError();
  logged_.erase(record.id);
}

void RunKeeper::LookAt(const RunRecord& record) {
  if (looked_ && HasEnded(DescribeRun(record, UnixTime()).state())) return Settle(record);
  const absl::Status supervised = supervise_(RunDirectory(record.run_dir));
  const std::string error(supervised.message());
  if (std::exchange(logged_[record.id], error) != error && !supervised.ok()) {
    std::cerr << record.id << ": " << error << std::endl;
  }
}

}  // namespace braid
