// The writer of heartbeat/rank-R.json, which reports once a second what this rank is doing.
//
//   RankHeartbeat heartbeat(directory, rank, nonce, now, /*window=*/20);
//   heartbeat.BeatInBackground([&] { if (fence.Superseded()) _exit(kExitFenced); });
//   ...
//   heartbeat.CompleteStep(step, busy_seconds);           // the training thread
//   RETURN_IF_ERROR(heartbeat.Beat(/*always=*/false));
#ifndef BRAID_TRAINER_RANK_HEARTBEAT_H_
#define BRAID_TRAINER_RANK_HEARTBEAT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Thread-safe except for BeatInBackground. With a background thread the rank writes heartbeats
// while it computes, waits for others or writes a checkpoint, so a missing heartbeat means that the
// process is stopped or cut off from the file system.
class RankHeartbeat {
 public:
  // `now` returns Unix seconds; `nonce` names the attempt. busy_seconds is averaged over `window`
  // steps.
  RankHeartbeat(RunDirectory directory, int rank, std::string nonce, std::function<double()> now,
                int window);
  ~RankHeartbeat();
  RankHeartbeat(const RankHeartbeat&) = delete;
  RankHeartbeat& operator=(const RankHeartbeat&) = delete;

  // Starts a thread that writes a heartbeat once a second. `before_beat` is called before each
  // write, on the thread that writes. Up to kToleratedFailures consecutive writes may fail, as when
  // a file server restarts.
  void BeatInBackground(std::function<void()> before_beat);
  static constexpr int kToleratedFailures = 10;

  // Reports the phases of the calling (training) thread from now on. Until BeginSteps, all phases
  // but "communication" are reported as "opening".
  void ShowPhases();
  void BeginSteps() { opening_ = false; }
  // Reports "opening" again until BeginSteps, for work that takes longer than a step.
  void ShowOpening() { opening_ = true; }

  // Sets the step at which the attempt begins.
  void SetStep(int64_t step);
  // Records a completed step; `busy_seconds` is its wall time without waiting for other ranks.
  void CompleteStep(int64_t step, double busy_seconds);

  // Writes the heartbeat if `always`, or if the last one is a second old and there is no background
  // thread. Also returns the newest error of the background thread, once too many writes have
  // failed.
  absl::Status Beat(bool always);

 private:
  v1::Heartbeat Compose();
  absl::Status Write();
  std::string PhaseName() const;
  void Work();
  absl::Status Tolerate(absl::Status status);

  const RunDirectory directory_;
  const std::string nonce_;
  const std::function<double()> now_;
  const size_t window_;
  std::function<void()> before_beat_ = [] {};  // set before the thread starts
  std::atomic<int> phase_;
  std::atomic<bool> opening_ = true;

  std::mutex file_mutex_;  // serializes writes; acquired before mutex_

  std::mutex mutex_;  // guards all members below
  std::condition_variable wake_;
  v1::Heartbeat beat_;
  std::deque<double> busy_;  // for the last `window` steps
  double last_beat_ = 0;
  bool ending_ = false;
  int failures_ = 0;  // consecutive failed writes
  absl::Status failure_;
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_RANK_HEARTBEAT_H_
