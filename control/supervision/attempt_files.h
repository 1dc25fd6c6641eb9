// What a run directory says of the attempts to train it.
#ifndef BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_
#define BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_

#include <cstdint>
#include <optional>

#include "runs/run_directory.h"

namespace braid {

// The newest step with a published checkpoint; 0 when there is none. By name, not by content.
int64_t NewestCheckpointStep(const RunDirectory& run);

// How the attempt of attempt.json ended, if it said so; a trainer that knows no nonce is believed.
std::optional<ExitRecord> ExitOfAttempt(const RunDirectory& run);

// Whether attempt.json is of the attempt that the event log, whose newest event has the number
// `last_event`, says is starting; a supervisor may have been killed between the two.
bool HasBegunAttempt(const RunDirectory& run, int64_t last_event);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ATTEMPT_FILES_H_
