// Limits the number of calls in progress. Each kind of call has its own limit, so that neither
// refused callers, nor callers of open methods, nor a single principal can exhaust the capacity of
// the others.
#ifndef BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
#define BRAID_SERVER_ACCESS_CALL_CAPACITY_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace braid {

enum class CallKind {
  kNamed,      // by an identified principal, including watches
  kOpen,       // call of an open method: health checks
  kOpenWatch,  // watch of an open method, which lasts until the caller ends it
  kRefused,    // refused, waiting for its delayed answer
};

struct CallLimits {
  int named = 32768;
  int of_one_principal = 16384;
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

  const CallLimits limits_;
  std::mutex mutex_;
  std::map<CallKind, int> taken_;          // guarded by mutex_
  std::map<std::string, int> principals_;  // calls of kind kNamed; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
