// The events of one run, for EventStreams.
#ifndef BRAID_CONTROL_RUN_EVENT_SOURCE_H_
#define BRAID_CONTROL_RUN_EVENT_SOURCE_H_

#include <functional>
#include <memory>

#include "braid/v1/training.pb.h"
#include "rpc/event_source.h"
#include "runs/run_directory.h"

namespace braid {

// The lines of events.jsonl. Ends with the event that says that the run has ended, if none follows
// it; that event carries what `describe` gives as `final`.
//
// A run may end without a word: its job is cancelled and killed, its node dies. RunKeeper finds
// that out, and what it has found `is_settled` tells, which is asked once a second and must not
// wait. `describe` may, for a scheduler: it is called when the run has ended, and not for each
// watcher. If it says so too, one more event follows, which is not in the log and has the number
// of the next that would be: the end, with `final`. (Of a run that is resumed after that, the log
// has another event of that number, RUN_STARTING.) A run without any log has this event alone.
std::unique_ptr<EventSource<v1::RunEvent>> OpenRunEvents(const RunDirectory& run,
                                                         std::function<v1::Run()> describe,
                                                         std::function<bool()> is_settled);

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_EVENT_SOURCE_H_
