// The end of trainer.log, for people.
#ifndef BRAID_TRAINER_CONTROL_LOG_TAIL_H_
#define BRAID_TRAINER_CONTROL_LOG_TAIL_H_

#include <cstdint>
#include <string>

#include "trainer/run_directory.h"

namespace braid {

// The last whole lines of trainer.log, at most `max_bytes` of them.
std::string LogTail(const RunDirectory& run, int64_t max_bytes = 2048);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_LOG_TAIL_H_
