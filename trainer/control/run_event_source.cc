#include "trainer/control/run_event_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/status_macros.h"
#include "trainer/control/run_event_follower.h"
#include "trainer/control/run_event_log.h"
#include "trainer/control/run_state.h"
#include "trainer/control/unix_time.h"

namespace braid {
namespace {

class RunEventSource final : public EventSource<v1::RunEvent> {
 public:
  RunEventSource(const RunDirectory& run, std::function<v1::Run()> describe)
      : path_(run.events()), describe_(std::move(describe)), follower_(path_) {}

  // Without a log the run itself is looked at, once a second.
  uint64_t Version() override {
    const int64_t size = follower_.SizeBytes();
    return size > 0 ? static_cast<uint64_t>(size) : ~static_cast<uint64_t>(UnixTime());
  }

  absl::StatusOr<EventBatch<v1::RunEvent>> After(int64_t number) override {
    // First: events that come between the two looks then show that it was not the last.
    const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(path_);
    if (!newest) return WithoutLog(number);
    EventBatch<v1::RunEvent> batch;
    ASSIGN_OR_RETURN(batch.events, follower_.After(number, kEventBatchBytes));
    batch.last = HasEnded(newest->state()) &&
                 (batch.events.empty() ? number >= newest->number()
                                       : batch.events.back().number() == newest->number());
    if (batch.last && !batch.events.empty()) AddFinal(&batch.events.back());
    return batch;
  }

 private:
  EventBatch<v1::RunEvent> WithoutLog(int64_t number) const {
    v1::Run run = describe_();
    if (!HasEnded(run.state())) return {};
    v1::RunEvent event;
    event.set_number(std::max<int64_t>(number, 0) + 1);
    event.set_time(run.finished_at());
    event.set_state(run.state());
    *event.mutable_final() = std::move(run);
    return {.events = {std::move(event)}, .last = true};
  }

  // The state is the event's: its processes may not have gone yet.
  void AddFinal(v1::RunEvent* event) const {
    *event->mutable_final() = describe_();
    event->mutable_final()->set_state(event->state());
  }

  const std::filesystem::path path_;
  const std::function<v1::Run()> describe_;
  RunEventFollower follower_;
};

}  // namespace

std::unique_ptr<EventSource<v1::RunEvent>> OpenRunEvents(const RunDirectory& run,
                                                         std::function<v1::Run()> describe) {
  return std::make_unique<RunEventSource>(run, std::move(describe));
}

}  // namespace braid
