// A summary of the events of a run, kept as RUN_DIR/supervision.json so that readers need not read
// the whole event log.
#ifndef BRAID_CONTROL_SUPERVISION_RUN_HISTORY_H_
#define BRAID_CONTROL_SUPERVISION_RUN_HISTORY_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The number of newest incidents that are kept.
inline constexpr int kKeptIncidents = 20;

struct RunHistory {
  // state, error, finished_at, attempts, incidents, last_event, and the slow ranks of the newest
  // attempt.
  v1::Run run;
  // The nonce of the launch, as in process.json.
  std::string nonce;
  // Unix seconds; 0 before the first launch.
  double first_launch = 0;
  // Seconds between the end of a launch and the next.
  double paused_seconds = 0;
  // Sum of step_seconds over the recorded steps, each counted once.
  double useful_seconds = 0;
  // The newest recorded step.
  int64_t newest_step = 0;
  // Restarts from the checkpoint of step restart_step; a later checkpoint resets the count.
  int32_t restarts = 0;
  int64_t restart_step = -1;

  // Adds one event. Requires events in order.
  void Apply(const v1::RunEvent& event);

  // Returns the restarts that count when the next attempt starts from the checkpoint of `step`.
  int32_t RestartsBefore(int64_t step) const { return step > restart_step ? 0 : restarts; }

  // Returns the goodput: the share of the time since the first launch, without the pauses of a
  // stopped run, that was spent in steps that were kept. 0 before the first step.
  double EffectiveTrainingTime(double now) const;
};

absl::Status WriteRunHistory(const std::filesystem::path& path, const RunHistory& history,
                             Durability durability);
// Absent when the file is missing or damaged.
std::optional<RunHistory> ReadRunHistory(const std::filesystem::path& path);

// Reads supervision.json and applies the events after it. Without the file, reads the whole log.
absl::StatusOr<RunHistory> LoadRunHistory(const std::filesystem::path& supervision,
                                          const std::filesystem::path& events);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_HISTORY_H_
