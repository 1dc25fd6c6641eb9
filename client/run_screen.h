// Following a run to its end as a person wants to see it, or as a program reads it.
#ifndef BRAID_CLIENT_RUN_SCREEN_H_
#define BRAID_CLIENT_RUN_SCREEN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "rpc/training_client.h"

namespace braid {

// Asks for the run twice a second and shows each answer until it has ended. A server that
// does not answer is asked again for two minutes. Cancelled on Ctrl-C, which leaves the run
// alone.
absl::StatusOr<v1::Run> PollRun(TrainingClient& client, const std::string& id,
                                const std::function<void(const v1::Run&)>& show);

// Redraws the run's view (run_view.h) on the terminal behind standard output.
absl::StatusOr<v1::Run> ShowRunOnScreen(TrainingClient& client, const std::string& id);

// Prints a line of JSON, a whole Run, whenever something but the time has changed.
absl::StatusOr<v1::Run> PrintRunChanges(TrainingClient& client, const std::string& id);

}  // namespace braid

#endif  // BRAID_CLIENT_RUN_SCREEN_H_
