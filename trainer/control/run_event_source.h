// The events of one run, for EventStreams.
#ifndef BRAID_TRAINER_CONTROL_RUN_EVENT_SOURCE_H_
#define BRAID_TRAINER_CONTROL_RUN_EVENT_SOURCE_H_

#include <functional>
#include <memory>

#include "braid/v1/training.pb.h"
#include "proto/event_source.h"
#include "trainer/run_directory.h"

namespace braid {

// The lines of events.jsonl. Ends with the event that says that the run has ended, if none follows
// it; that event carries what `describe` gives as `final`. A run from before there were event logs
// has one event, when it ends.
std::unique_ptr<EventSource<v1::RunEvent>> OpenRunEvents(const RunDirectory& run,
                                                         std::function<v1::Run()> describe);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_RUN_EVENT_SOURCE_H_
