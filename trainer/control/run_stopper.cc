#include "trainer/control/run_stopper.h"

#include <chrono>

#include "formats/status_macros.h"
#include "trainer/control/run_process.h"
#include "trainer/control/unix_time.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

RunStopper::RunStopper() : thread_([this] { Work(); }) {}

RunStopper::~RunStopper() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

absl::Status RunStopper::Advance(const RunDirectory& run, std::set<int64_t>* signalled) {
  RETURN_IF_ERROR(SignalRanks(run, signalled));
  EscalateStop(run, UnixTime());
  return absl::OkStatus();
}

absl::Status RunStopper::Stop(const RunDirectory& run) {
  RETURN_IF_ERROR(RecordStopRequest(run, UnixTime()));
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(Advance(run, &stopping_[run.root()]));
  wake_.notify_all();
  return absl::OkStatus();
}

void RunStopper::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (stopping_.empty()) {
      wake_.wait(lock);
      continue;
    }
    wake_.wait_for(lock, kInterval);
    for (auto entry = stopping_.begin(); entry != stopping_.end();) {
      const RunDirectory run(entry->first);
      // A run that was resumed meanwhile has a launch that nobody asked to stop.
      const bool open = HasLiveProcess(run, UnixTime()) && ReadStopRequest(run).has_value();
      if (open && Advance(run, &entry->second).ok()) {
        ++entry;
      } else {
        entry = stopping_.erase(entry);
      }
    }
  }
}

}  // namespace braid
