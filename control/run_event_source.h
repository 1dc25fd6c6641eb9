// The events of one run, as a source for EventStreams.
#ifndef BRAID_CONTROL_RUN_EVENT_SOURCE_H_
#define BRAID_CONTROL_RUN_EVENT_SOURCE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "rpc/event_source.h"
#include "runs/run_directory.h"

namespace braid {

// Returns a source of the lines of events.jsonl. It ends with the event that ends the run, if none
// follows it; that event carries the result of `describe` as `final`.
//
// A run may end without an event: its job is cancelled or killed, or its node dies. RunKeeper
// detects that, and `is_settled` reports it, or NotFound for a run that was deleted, which ends the
// source; it is called once a second and must not block.
// `describe` may block on a scheduler; it is called once the run has ended, and not for each
// watcher. If it confirms the end, the source adds a final event that is not in the log and has the
// next number. (If the run is resumed later, the log will contain another event with that number,
// RUN_STARTING.) A run without a log has this event only.
std::unique_ptr<EventSource<v1::RunEvent>> OpenRunEvents(
    const RunDirectory& run, std::function<v1::Run()> describe,
    std::function<absl::StatusOr<bool>()> is_settled);

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_EVENT_SOURCE_H_
