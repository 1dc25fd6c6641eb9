// Finds the ranks that block a run, from its heartbeats. Collectives block every rank when one
// stalls, so a missing step alone does not identify the culprit. Ranks without heartbeats are
// reported first; among ranks that all send heartbeats, those that are not waiting in a collective.
// The clock is an argument.
#ifndef BRAID_CONTROL_SUPERVISION_HEARTBEAT_WATCH_H_
#define BRAID_CONTROL_SUPERVISION_HEARTBEAT_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

struct WatchLimits {
  // Limit for the time from the start of mpirun to the first heartbeat of the last rank.
  double launch_seconds = 300;
  // Limit for the first step after any rank was in phase "opening"; in it, memory is touched for
  // the first time.
  double first_step_seconds = 120;
  // Limit for the phases "opening" (a dataset is read and verified) and "checkpoint".
  double long_phase_seconds = 1800;
};

// Returns max(hang_seconds, hang_steps * 99th percentile of `step_seconds`).
double HangLimit(const v1::SupervisionConfig& config, std::span<const double> step_seconds);

// The heartbeats of one attempt, read repeatedly. The age of a heartbeat counts from when this
// object first saw it, on the caller's clock, so the clocks of the hosts need not agree.
class HeartbeatWatch {
 public:
  // `now` is in seconds of any steady clock.
  HeartbeatWatch(int world_size, std::string nonce, WatchLimits limits, double now);

  // Takes the heartbeats in the run directory; those of other attempts are ignored. When more than
  // three seconds passed since the last call, only three count: the caller was stopped itself, or
  // the machine slept, and nothing is known about the ranks in that time.
  //
  // `starved` has the seconds since the last call in which a rank was ready to run but had no
  // processor, for the ranks where this is known. Nine tenths of them do not count against the rank
  // itself, nor against the step unless the rank waits for others. So a rank that other programs
  // starve does not hang, while a stopped or sleeping rank is found as fast as ever, and one that
  // spins forever after at most ten times the limit. A rank that waits in a collective spins as
  // well, which is why its time excuses no missing step.
  void Look(std::span<const v1::Heartbeat> beats, double now,
            const std::map<int, double>& starved = {});

  // Notes that a step of this attempt is complete, even if no heartbeat has shown it: steps can be
  // far shorter than the time between two heartbeats.
  void SawStep() { saw_step_ = true; }

  // Returns the newest heartbeats of this attempt, ordered by rank.
  std::vector<v1::Heartbeat> beats() const;
  bool any_reported() const { return !ranks_.empty(); }
  // Returns the ranks whose heartbeats stopped more than 1.5 s before the last heartbeat of any
  // rank: the others were ended because of them. A rank whose heartbeats came late before, because
  // its machine is busy, is named only after a longer silence than those.
  std::vector<v1::Heartbeat> SilentFirst() const;

  struct Hang {
    // The ranks at fault; empty when every rank waits for the others, or none ever reported.
    std::vector<v1::Heartbeat> ranks;
    std::string cause;
    // Every rank reports and waits, so a network link is the likely cause.
    bool all_wait = false;
  };
  // Returns the hang at `now`, if any. `limit` is that of HangLimit. Requires a call of Look at
  // `now`.
  std::optional<Hang> FindHang(double limit, double now) const;

  // Returns the seconds since a step was completed when all ranks report that they wait for others,
  // otherwise 0.
  double AllWaitingFor(double now) const;

 private:
  struct Rank {
    v1::Heartbeat beat;
    double changed_at = 0;
    // The longest time between two of its recent heartbeats.
    double longest_gap = 0;
  };
  void Excuse(const std::map<int, double>& starved, double passed, double now);
  std::optional<Hang> FindUnreported(double now) const;
  std::optional<Hang> FindSilent(double limit, double now) const;
  std::optional<Hang> FindStuck(double limit, double now) const;
  double StepLimit(double limit) const;
  bool AnyOpening() const;
  bool AllWait() const;

  const int world_size_;
  const std::string nonce_;
  const WatchLimits limits_;
  double begin_;
  double looked_at_;
  std::map<int, Rank> ranks_;
  // The step after the last phase "opening".
  int64_t first_step_ = -1;
  int64_t newest_step_ = -1;
  bool saw_step_ = false;
  double progress_at_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_HEARTBEAT_WATCH_H_
