// Caches descriptions of settled runs, for callers that list all runs.
#ifndef BRAID_CONTROL_RUN_DESCRIPTIONS_H_
#define BRAID_CONTROL_RUN_DESCRIPTIONS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "braid/v1/training.pb.h"
#include "control/run_store.h"

namespace braid {

// A cache of descriptions: describing a settled run again costs one stat call. Thread-safe.
class RunDescriptions {
 public:
  // Returns DescribeRun(record, now). The description of a settled run may come from the cache,
  // unless the run was launched or its event log grew since.
  v1::Run Of(const RunRecord& record, double now);

 private:
  struct Known {
    int64_t launches = 0;
    int64_t event_bytes = 0;
    v1::Run run;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Known> known_;  // by id
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_DESCRIPTIONS_H_
