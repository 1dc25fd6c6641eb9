// Finds the ranks that a run hangs on, from its heartbeats. In lockstep one rank that stands still
// makes all stand still; so it is told who does not report at all, and who of those that report
// does not wait for the others. Pure: time is given.
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
  // From the start of mpirun to the first heartbeat of the last rank.
  double launch_seconds = 300;
  // The first step after any rank was opening, in which memory is first touched.
  double first_step_seconds = 120;
  // Opening (a dataset is read and verified) and waiting for a checkpoint to be written.
  double long_phase_seconds = 1800;
};

// max(hang_seconds, hang_steps * 99th percentile of `step_seconds`).
double HangLimit(const v1::SupervisionConfig& config, std::span<const double> step_seconds);

// Heartbeats of one attempt, looked at again and again. Ages are counted by the watcher's clock
// from when a change was seen, so clocks of hosts need not agree.
class HeartbeatWatch {
 public:
  // `now` in seconds of any steady clock.
  HeartbeatWatch(int world_size, std::string nonce, WatchLimits limits, double now);

  // What the run directory holds now; those of other attempts are passed over. Of a time that
  // nobody looked, because the watcher itself stood still, three seconds count.
  void Look(std::span<const v1::Heartbeat> beats, double now);

  // A step of this attempt is known to be complete, though no heartbeat may have said so yet: steps
  // can be far shorter than the time between two beats.
  void SawStep() { saw_step_ = true; }

  // Of this attempt, by rank.
  std::vector<v1::Heartbeat> beats() const;
  bool any_reported() const { return !ranks_.empty(); }
  // Ranks that stopped reporting more than a beat and a half before the last that did.
  std::vector<v1::Heartbeat> SilentFirst() const;

  struct Hang {
    // The culprits; empty when every rank waits for the others, or none was ever there.
    std::vector<v1::Heartbeat> ranks;
    std::string cause;
    // Every rank reports and waits: the links between them are suspect.
    bool all_wait = false;
  };
  // `limit` of HangLimit. Requires Look at `now`.
  std::optional<Hang> FindHang(double limit, double now) const;

  // Seconds since a rank completed a step, when all report that they wait for others.
  double AllWaitingFor(double now) const;

 private:
  struct Rank {
    v1::Heartbeat beat;
    double changed_at = 0;
  };
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
  // Where the steps after the last opening begin.
  int64_t first_step_ = -1;
  int64_t newest_step_ = -1;
  bool saw_step_ = false;
  double progress_at_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_HEARTBEAT_WATCH_H_
