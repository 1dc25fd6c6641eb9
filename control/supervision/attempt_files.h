// What a run directory says about its attempts: exit records and attempt.json.
#ifndef BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_
#define BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_

#include <cstdint>
#include <optional>

#include "runs/run_directory.h"

namespace braid {

// Returns exit.json when it is of the attempt of attempt.json. A record without a nonce, from a
// trainer that was started by hand, is accepted.
std::optional<ExitRecord> ExitOfAttempt(const RunDirectory& run);

// Returns whether attempt.json is of the attempt that the event log announces as starting. It is
// not when a supervisor was killed between the event and the file. `last_event` is the number of
// the newest event.
bool HasBegunAttempt(const RunDirectory& run, int64_t last_event);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_
