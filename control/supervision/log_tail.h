// The end of trainer.log, for people.
#ifndef BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
#define BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_

#include <cstdint>
#include <string>

#include "runs/run_directory.h"

namespace braid {

// The last whole lines of trainer.log, at most `max_bytes` of them.
std::string LogTail(const RunDirectory& run, int64_t max_bytes = 2048);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
