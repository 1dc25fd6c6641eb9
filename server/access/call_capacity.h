// How many calls a server has at a time. Each kind has places of its own, so that neither callers
// who are not let in, nor those of open methods, nor one principal, can take those of the others.
#ifndef BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
#define BRAID_SERVER_ACCESS_CALL_CAPACITY_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace braid {

enum class CallKind {
  kNamed,      // of a principal, watches included
  kOpen,       // of anybody: health
  kOpenWatch,  // likewise, until the caller ends it
  kRefused,    // waits for its answer
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

  // RESOURCE_EXHAUSTED without a place; whoever gets one gives it back with Leave.
  absl::Status Enter(CallKind kind, const std::string& principal);
  void Leave(CallKind kind, const std::string& principal);

 private:
  int LimitOf(CallKind kind) const;

  const CallLimits limits_;
  std::mutex mutex_;
  std::map<CallKind, int> taken_;          // guarded by mutex_
  std::map<std::string, int> principals_;  // of kNamed; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_CAPACITY_H_
