// What happened to a run, for its time line: a fold over its event log.
#ifndef BRAID_REPORT_RUN_LIFE_H_
#define BRAID_REPORT_RUN_LIFE_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

struct RunLife {
  // Between two events of other states; Unix seconds.
  struct Stretch {
    double start = 0, end = 0;
    v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  };
  std::vector<Stretch> stretches;  // in order; none while the run had ended
  std::vector<v1::RunIncident> incidents;
  std::vector<v1::SlowRank> slow_ranks;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  // Times that ranks were started.
  int32_t attempts = 0;
  // Unix seconds of the first and the newest event; 0 without any.
  double started = 0, ended = 0;

  // Requires events in order; those of steps may be left out.
  void Apply(const v1::RunEvent& event);

  // Seconds in which the run was not ended.
  double LiveSeconds() const;
};

// From events.jsonl; empty without such a file. DataLoss names a damaged line.
absl::StatusOr<RunLife> ReadRunLife(const std::filesystem::path& events);

// The same from the times of steps, for a run without event log.
RunLife LifeOfSteps(std::span<const v1::StepMetrics> metrics);

// step_seconds of the steps that were kept over the seconds that the run was alive, as `braid
// status` tells it; NaN without steps or time.
double EffectiveTrainingTime(const RunLife& life, std::span<const v1::StepMetrics> metrics);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_LIFE_H_
