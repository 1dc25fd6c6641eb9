// The interface through which event streams read the numbered events of a job or run.
#ifndef BRAID_RPC_EVENT_SOURCE_H_
#define BRAID_RPC_EVENT_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// Maximum bytes of events in a batch, except that a batch may contain one larger event. Bounds the
// memory held for a client that has stopped reading.
inline constexpr int64_t kEventBatchBytes = 8192;

template <class Event>
struct EventBatch {
  std::vector<Event> events;
  // True if no further event will follow.
  bool last = false;
};

// A source of events. Used by one thread at a time.
template <class Event>
class EventSource {
 public:
  virtual ~EventSource() = default;

  // Returns a number that changes whenever After may return more events. Called several times a
  // second, so it must be cheap.
  virtual uint64_t Version() = 0;

  // Returns the available events with numbers above `number`, ascending and without gaps, up to
  // about kEventBatchBytes.
  virtual absl::StatusOr<EventBatch<Event>> After(int64_t number) = 0;
};

}  // namespace braid

#endif  // BRAID_RPC_EVENT_SOURCE_H_
