#include "control/run_descriptions.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "control/run_status.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Each description has a few kilobytes.
constexpr size_t kMaxKnown = 10000;

// Returns -1 when there is no such file.
int64_t EventBytes(const RunRecord& record) {
  std::error_code error;
  const auto size = std::filesystem::file_size(RunDirectory(record.run_dir).events(), error);
  return error ? -1 : static_cast<int64_t>(size);
}

}  // namespace

v1::Run RunDescriptions::Of(const RunRecord& record, double now) {
  if (record.active) return DescribeRun(record, now);
  // The size is taken before the description, so that an event in between makes the cached one
  // outdated.
  const int64_t bytes = EventBytes(record);
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(record.id);
    if (found != known_.end() && found->second.launches == record.launches &&
        found->second.event_bytes == bytes) {
      return found->second.run;
    }
  }
  v1::Run run = DescribeRun(record, now);
  // A log that could not be read, for want of descriptors for instance, may be readable next time.
  if (!HasEnded(run.state()) || (bytes > 0 && run.last_event() == 0)) return run;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[record.id] = {.launches = record.launches, .event_bytes = bytes, .run = run};
  return run;
}

}  // namespace braid
