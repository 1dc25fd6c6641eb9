// One attempt as its supervisor follows it: the process of mpirun, the heartbeats of its ranks, and
// what they show about hangs, slow ranks and the end of the attempt.
#ifndef BRAID_CONTROL_SUPERVISION_FOLLOWED_ATTEMPT_H_
#define BRAID_CONTROL_SUPERVISION_FOLLOWED_ATTEMPT_H_

#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/decision.h"
#include "control/supervision/heartbeat_watch.h"
#include "control/supervision/host_probe.h"
#include "control/supervision/slow_rank_detector.h"
#include "runs/run_directory.h"

namespace braid {

// Not thread-safe. Remains after the end of the attempt, until its incident has been recorded.
class FollowedAttempt {
 public:
  FollowedAttempt(const RunDirectory& run, const v1::RunSpec& spec, AttemptProcess process,
                  WatchLimits limits);

  // Starts to watch the heartbeats for hangs.
  void Attach();
  bool attached() const { return attached_; }
  // Returns true if a rank of this attempt has sent a heartbeat.
  bool reported() const { return watch_.any_reported(); }
  // Records that a step was completed, whether or not a heartbeat shows it.
  void SawStep() { watch_.SawStep(); }

  // Fills in the fields about the attempt: phase, exit record, hang and others.
  void Observe(Observation* seen);

  // Reads the heartbeats when that is due, and looks for a hang, which takes `hang_limit` seconds
  // (HangLimit). Returns the ranks that have become slow. Does nothing once the attempt has ended
  // or written exit.json: a rank that is exiting sends no heartbeats and does not hang.
  std::vector<v1::SlowRank> FollowHeartbeats(double hang_limit);

  // Sends SIGTERM to the ranks on this machine that have not received it yet.
  absl::Status SignalRanks();
  // Sends SIGTERM to mpirun.
  void Terminate();
  // Kills the remaining processes of the attempt on this machine. Errors are kept for AddCause.
  void End();

  // Completes an incident whose cause is still empty: the ranks at fault and the cause, from the
  // hang if there is one, otherwise from mpirun's exit code, trainer.log and the heartbeats.
  void AddCause(v1::RunIncident* incident) const;

 private:
  void TakeHeartbeats(double now);
  std::map<int, double> StarvedSeconds();
  void ProbeWhenAllWait(double limit, double now);
  void AddUnreachableHosts();

  const RunDirectory run_;
  const v1::RunSpec spec_;
  AttemptProcess process_;
  HeartbeatWatch watch_;
  SlowRankDetector slow_ranks_;
  bool attached_ = false;
  bool ended_ = false;
  bool terminated_ = false;
  std::set<int64_t> signaled_;  // process ids
  // RunQueueSeconds of the ranks on this machine, by rank, when StarvedSeconds was last called.
  std::map<int, std::map<int64_t, double>> run_queue_seconds_;
  double look_at_ = 0;               // when heartbeats are read next; steady clock
  std::optional<double> exited_at_;  // when exit.json was first seen; steady clock
  std::optional<HeartbeatWatch::Hang> hang_;
  std::future<std::vector<Reachability>> probe_;
  std::vector<v1::Heartbeat> silent_first_;
  absl::Status end_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_FOLLOWED_ATTEMPT_H_
