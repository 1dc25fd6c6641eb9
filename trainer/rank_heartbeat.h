// heartbeat/rank-R.json as its writer sees it: where this rank is, once a second.
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

// Thread-safe but for BeatInBackground. With a thread of its own the rank beats while it computes,
// waits for others or writes a checkpoint: a rank that does not beat is stopped or cut off.
class RankHeartbeat {
 public:
  // `now` in Unix seconds; `nonce` of the attempt. busy_seconds is the mean of `window` steps.
  RankHeartbeat(RunDirectory directory, int rank, std::string nonce, std::function<double()> now,
                int window);
  ~RankHeartbeat();
  RankHeartbeat(const RankHeartbeat&) = delete;
  RankHeartbeat& operator=(const RankHeartbeat&) = delete;

  // A thread beats from now on, once a second. `before_beat` is called before anything is written,
  // on whichever thread writes. Up to kToleratedFailures of its beats in a row may fail, as when a
  // file server is restarted.
  void BeatInBackground(std::function<void()> before_beat);
  static constexpr int kToleratedFailures = 10;

  // The calling thread trains: its phases are shown from now on, all but "communication" as
  // "opening" until BeginSteps.
  void ShowPhases();
  void BeginSteps() { opening_ = false; }
  // "opening" again, until BeginSteps: what follows takes longer than steps do.
  void ShowOpening() { opening_ = true; }

  // `step` is where the attempt begins.
  void SetStep(int64_t step);
  // `busy_seconds`: wall seconds of this step without waiting for other ranks.
  void CompleteStep(int64_t step, double busy_seconds);

  // Writes the heartbeat: with `always`, or when the last is a second old and no thread does it.
  // Also returns the newest error of the thread, once too many beats have failed.
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

  std::mutex file_mutex_;  // one writes at a time; before mutex_

  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  v1::Heartbeat beat_;
  std::deque<double> busy_;  // of the last steps
  double last_beat_ = 0;
  bool ending_ = false;
  int failures_ = 0;  // beats in a row
  absl::Status failure_;
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_RANK_HEARTBEAT_H_
