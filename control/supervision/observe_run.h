// A run as seen from outside, by a process that is not its supervisor: the files of the run
// directory and the processes that they name. Decide (decision.h) does the rest.
#ifndef BRAID_CONTROL_SUPERVISION_OBSERVE_RUN_H_
#define BRAID_CONTROL_SUPERVISION_OBSERVE_RUN_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/supervision/decision.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"

namespace braid {

// Returns the time of a file's last change in Unix seconds; 0 when there is no such file.
double ModifiedAt(const std::filesystem::path& path);

// The files that most callers have read already.
struct RunFiles {
  // The newest event of events.jsonl; its state is all that matters here.
  std::optional<v1::RunEvent> newest;
  // The launch that the events are of: the nonce of supervision.json, or empty.
  std::string nonce = {};
  // The heartbeats of any attempt; only needed for a run without events.
  std::span<const v1::Heartbeat> heartbeats = {};
};

// Returns what is seen of the run at `now`, in Unix seconds. `created` is when the run was created;
// a launch that has not written process.json yet is counted from there.
Observation ObserveRun(const RunDirectory& run, const RunFiles& files, double created, double now);

// Returns true when process.json is of a later launch than `known_nonce`, the nonce of
// supervision.json: the supervisor of that launch has not recorded an event yet. False while either
// nonce is unknown.
bool HasNewLaunch(const absl::StatusOr<ProcessRecord>& process, const std::string& known_nonce);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_OBSERVE_RUN_H_
