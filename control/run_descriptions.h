// DescribeRun for those who ask about all runs there ever were.
#ifndef BRAID_CONTROL_RUN_DESCRIPTIONS_H_
#define BRAID_CONTROL_RUN_DESCRIPTIONS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "braid/v1/training.pb.h"
#include "control/run_store.h"

namespace braid {

// Remembers what settled runs were like, at the cost of a stat each. Thread-safe.
class RunDescriptions {
 public:
  // DescribeRun(record, now); of a settled run perhaps as it was when it was last asked about,
  // unless it was launched or its event log grew since.
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
