// Limits the number of calls in progress. Each kind of call has its own limit, so that neither
// refused callers, nor callers of open methods, nor a single principal can exhaust the capacity of
// the others.
#ifndef BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
#define BRAID_SERVER_ACCESS_CALL_CAPACITY_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace braid {

enum class CallKind {
  kNamed,      // by an identified principal, in which no thread waits
  kBlocking,   // by an identified principal, which holds a thread of the server until it ends
  kOpen,       // call of an open method: health checks
  kOpenWatch,  // watch of an open method, which lasts until the caller ends it
  kRefused,    // refused, waiting for its delayed answer
};

struct CallLimits {
  int named = 32768;
  int named_of_one = 16384;  // for one principal
  int blocking = 1792;       // below the threads of the server (grpc_host.cc)
  int blocking_of_one = 512;
  int open = 256;
  int open_watches = 1024;
  int refused = 1024;
};

// Thread-safe.
class CallCapacity {
 public:
  explicit CallCapacity(CallLimits limits) : limits_(limits) {}

  // Reserves a place for a call; RESOURCE_EXHAUSTED if there is none. After OK the caller must
  // release the place with Leave.
  absl::Status Enter(CallKind kind, const std::string& principal);
  void Leave(CallKind kind, const std::string& principal);

 private:
  int LimitOf(CallKind kind) const;
  // Returns the limit for one principal; 0 for kinds without one.
  int LimitOfOne(CallKind kind) const;

  const CallLimits limits_;
  std::mutex mutex_;
  std::map<CallKind, int> taken_;  // guarded by mutex_
  // Calls of each principal, of kinds with a limit for one; guarded by mutex_.
  std::map<std::pair<CallKind, std::string>, int> of_one_;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
