// The end of trainer.log, for error messages.
#ifndef BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
#define BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "runs/run_directory.h"

namespace braid {

// Returns the last whole lines of trainer.log, at most `max_bytes` bytes.
std::string LogTail(const RunDirectory& run, int64_t max_bytes = 2048);

// Returns what explains the end of a trainer that wrote `log`: its last lines, at most 5 and 400
// bytes, without the settings that it prints when it starts. "" when nothing follows these. Bytes
// that are not UTF-8 are replaced: no client could read a message with them.
std::string LogExcerpt(std::string_view log);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_LOG_TAIL_H_
