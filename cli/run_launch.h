// Launching a training run and following it, for the commands that do so.
#ifndef BRAID_CLI_RUN_LAUNCH_H_
#define BRAID_CLI_RUN_LAUNCH_H_

#include <string>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "client/session.h"

namespace braid {

// Launches a run and prints its id or, with `wait`, follows it until it ends and prints its result.
// Warns on standard error when a segment fills the sequence and routes on itself and, without
// --json, notes there that the order of the documents does not suit a small batch.
// `request_id`: idempotency key; "" for a new one. Errors: those of LaunchOnce, FollowRun and the
// outcome of the run.
absl::Status LaunchAndFollow(Session& session, const v1::RunSpec& spec,
                             const std::string& request_id, bool wait);

}  // namespace braid

#endif  // BRAID_CLI_RUN_LAUNCH_H_
