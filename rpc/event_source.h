// Where the numbered events of one thing (a job, a run) come from.
#ifndef BRAID_RPC_EVENT_SOURCE_H_
#define BRAID_RPC_EVENT_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// A batch holds no more than this many bytes of events, but at least one event: what is in
// memory for a reader that has stopped reading.
inline constexpr int64_t kEventBatchBytes = 8192;

template <class Event>
struct EventBatch {
  std::vector<Event> events;
  // Nothing comes after these.
  bool last = false;
};

// Used by one thread at a time.
template <class Event>
class EventSource {
 public:
  virtual ~EventSource() = default;

  // Differs from the one before when After may give more. Asked often, so cheap.
  virtual uint64_t Version() = 0;

  // Events with numbers above `number`, ascending without gap: those that are there, up to
  // about kEventBatchBytes.
  virtual absl::StatusOr<EventBatch<Event>> After(int64_t number) = 0;
};

}  // namespace braid

#endif  // BRAID_RPC_EVENT_SOURCE_H_
