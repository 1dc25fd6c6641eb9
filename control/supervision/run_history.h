// What the events of a run amount to, so that nobody has to read them all: a fold over the event
// log, kept as RUN_DIR/supervision.json.
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

// The newest incidents that are kept.
inline constexpr int kKeptIncidents = 20;

struct RunHistory {
  // state, error, finished_at, attempts, incidents, last_event, and the slow ranks of the newest
  // attempt.
  v1::Run run;
  // Of the launch, as in process.json.
  std::string nonce;
  // Unix seconds; 0 before the first launch.
  double first_launch = 0;
  // Seconds between the end of a launch and the next.
  double paused_seconds = 0;
  // step_seconds of the steps that were told, each once.
  double useful_seconds = 0;
  // The newest step that was told.
  int64_t newest_step = 0;
  // Restarts from restart_step; when a later one is reached they do not count any more.
  int32_t restarts = 0;
  int64_t restart_step = -1;

  // Requires events in order.
  void Apply(const v1::RunEvent& event);

  // Restarts that count when the next attempt would start from `step`.
  int32_t RestartsBefore(int64_t step) const { return step > restart_step ? 0 : restarts; }

  // Useful seconds over seconds since the first launch without pauses; 0 before the first step.
  double EffectiveTrainingTime(double now) const;
};

absl::Status WriteRunHistory(const std::filesystem::path& path, const RunHistory& history,
                             Durability durability);
// Absent when there is no such file or it is damaged.
std::optional<RunHistory> ReadRunHistory(const std::filesystem::path& path);

// supervision.json brought up to the end of the event log; from the log alone without it.
absl::StatusOr<RunHistory> LoadRunHistory(const std::filesystem::path& supervision,
                                          const std::filesystem::path& events);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_HISTORY_H_
