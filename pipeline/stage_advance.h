// How a stage tells how far it is, and learns that it should stop.
#ifndef BRAID_PIPELINE_STAGE_ADVANCE_H_
#define BRAID_PIPELINE_STAGE_ADVANCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace braid {

// Called between chunks of work with the units done and expected (0: unknown).
// CANCELLED asks the stage to return that status at once.
using StageAdvance = std::function<absl::Status(int64_t done, int64_t total)>;

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGE_ADVANCE_H_
