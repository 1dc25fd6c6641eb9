#include "control/run_event_source.h"

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "control/run_event_follower.h"
#include "control/supervision/run_event_log.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Version is called at every poll of the streams; the database is queried less often.
constexpr double kLookSeconds = 1;

class RunEventSource final : public EventSource<v1::RunEvent> {
 public:
  RunEventSource(const RunDirectory& run, std::function<v1::Run()> describe,
                 std::function<absl::StatusOr<bool>()> is_settled)
      : path_(run.events()),
        describe_(std::move(describe)),
        is_settled_(std::move(is_settled)),
        follower_(path_) {}

  uint64_t Version() override {
    const int64_t size = follower_.SizeBytes();
    // A supervisor that writes is alive, whatever was found before.
    if (std::exchange(size_, size) != size) silent_end_.reset();
    if (const double now = SteadySeconds(); now - looked_at_ >= kLookSeconds) {
      looked_at_ = now;
      LookForSilentEnd();
    }
    // These differ from every size: such an end changes the version but not the log.
    if (!deleted_.ok()) return uint64_t{1} << 63;
    return silent_end_ ? ~static_cast<uint64_t>(size) : static_cast<uint64_t>(size);
  }

  absl::StatusOr<EventBatch<v1::RunEvent>> After(int64_t number) override {
    // Read before the events: an event that arrives in between then shows that this was not the
    // last.
    const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(path_);
    if (!newest) RETURN_IF_ERROR(deleted_);
    const int64_t newest_number = newest ? newest->number() : 0;
    EventBatch<v1::RunEvent> batch;
    if (newest) {
      ASSIGN_OR_RETURN(batch.events, follower_.After(number, kEventBatchBytes));
    }
    const int64_t last_number = batch.events.empty() ? number : batch.events.back().number();
    if (last_number < newest_number) return batch;
    if (!batch.events.empty() && last_number > newest_number) {
      // An end that arrived in between gets its run here: the next batch has no event for it.
      if (HasEnded(batch.events.back().state())) Close(&batch);
      return batch;
    }
    if (newest && HasEnded(newest->state())) {
      Close(&batch);
    } else if (silent_end_ && is_settled_().value_or(false)) {
      // A watcher that reconnects after this event has its number and does not get it again.
      if (number <= newest_number) batch.events.push_back(SilentEnd(newest_number + 1));
      batch.last = true;
    }
    return batch;
  }

 private:
  // Called after an event that ends the run, which may be starting again without an event so far.
  void Close(EventBatch<v1::RunEvent>* batch) const {
    v1::Run run = describe_();
    batch->last = HasEnded(run.state());
    if (!batch->last || batch->events.empty()) return;
    v1::RunEvent& end = batch->events.back();
    run.set_state(end.state());
    *end.mutable_final() = std::move(run);
  }

  // Called once per end: the result holds until the log grows or the run is launched again.
  void LookForSilentEnd() {
    const absl::StatusOr<bool> settled = is_settled_();
    if (absl::IsNotFound(settled.status())) deleted_ = settled.status();
    if (!settled.value_or(false)) return silent_end_.reset();
    if (silent_end_) return;
    if (v1::Run run = describe_(); HasEnded(run.state())) silent_end_ = std::move(run);
  }

  v1::RunEvent SilentEnd(int64_t number) const {
    v1::RunEvent event;
    event.set_number(number);
    event.set_time(silent_end_->finished_at());
    event.set_state(silent_end_->state());
    event.set_message(silent_end_->error());
    *event.mutable_final() = *silent_end_;
    return event;
  }

  const std::filesystem::path path_;
  const std::function<v1::Run()> describe_;
  const std::function<absl::StatusOr<bool>()> is_settled_;
  RunEventFollower follower_;
  int64_t size_ = 0;      // bytes of the log
  double looked_at_ = 0;  // steady clock
  // The run, once it has ended and is settled: its log may have no event of that end, or only that
  // of an earlier launch.
  std::optional<v1::Run> silent_end_;
  absl::Status deleted_;  // NotFound once the run has been deleted
};

}  // namespace

std::unique_ptr<EventSource<v1::RunEvent>> OpenRunEvents(
    const RunDirectory& run, std::function<v1::Run()> describe,
    std::function<absl::StatusOr<bool>()> is_settled) {
  return std::make_unique<RunEventSource>(run, std::move(describe), std::move(is_settled));
}

}  // namespace braid
