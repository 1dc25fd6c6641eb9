// The end of trainer.log, for error messages.
#ifndef BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
#define BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_

#include <cstdint>
#include <string>

#include "runs/run_directory.h"

namespace braid {

// Returns the last whole lines of trainer.log, at most `max_bytes` bytes.
std::string LogTail(const RunDirectory& run, int64_t max_bytes = 2048);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
