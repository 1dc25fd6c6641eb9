// The history of a run for its timeline, computed from its event log.
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
  // A period in one state, in Unix seconds.
  struct Stretch {
    double start = 0, end = 0;
    v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  };
  std::vector<Stretch> stretches;  // in order, without the times in which the run had ended
  std::vector<v1::RunIncident> incidents;
  std::vector<v1::SlowRank> slow_ranks;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  // Number of times that ranks were started.
  int32_t attempts = 0;
  // Unix seconds of the first and the newest event; 0 without any.
  double started = 0, ended = 0;

  // Adds an event. Requires events in order; those of steps may be left out.
  void Apply(const v1::RunEvent& event);

  // Returns the seconds in which the run had not ended.
  double LiveSeconds() const;
};

// Reads events.jsonl; empty if there is no such file. DataLoss names a damaged line.
absl::StatusOr<RunLife> ReadRunLife(const std::filesystem::path& events);

// Computes the same from the times of steps, for a run without an event log.
RunLife LifeOfSteps(std::span<const v1::StepMetrics> metrics);

// Returns the goodput, as `braid status` reports it: step_seconds of the steps that were kept,
// divided by the seconds in which the run was alive. NaN without steps or time.
double Goodput(const RunLife& life, std::span<const v1::StepMetrics> metrics);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_LIFE_H_
