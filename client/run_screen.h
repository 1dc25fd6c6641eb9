// Following a run until it ends: on a terminal, or as lines of JSON.
#ifndef BRAID_CLIENT_RUN_SCREEN_H_
#define BRAID_CLIENT_RUN_SCREEN_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "rpc/training_client.h"

namespace braid {

// Polls the run twice per second, passes each state to `show` and returns the run when it has
// ended. Retries for `patience` when the server does not answer; calls `on_lost` when this begins.
// The error of a server that stays away says that the run continues. Cancelled on Ctrl-C; the run
// continues.
absl::StatusOr<v1::Run> PollRun(TrainingClient& client, const std::string& id,
                                const std::function<void(const v1::Run&)>& show,
                                const std::function<void()>& on_lost,
                                std::chrono::milliseconds patience = std::chrono::minutes(2));

// Redraws the view of the run (run_view.h) in place on standard output, which must be a terminal.
absl::StatusOr<v1::Run> ShowRunOnScreen(TrainingClient& client, const std::string& id);

// Prints the whole Run as a line of JSON whenever anything except its times has changed.
absl::StatusOr<v1::Run> PrintRunChanges(TrainingClient& client, const std::string& id);

}  // namespace braid

#endif  // BRAID_CLIENT_RUN_SCREEN_H_
