#include "trainer/rank_heartbeat.h"

#include <unistd.h>

#include <chrono>
#include <numeric>
#include <utility>

#include "base/blas_core.h"
#include "model/kernels/phase_times.h"
#include "runs/process_identity.h"

namespace braid {
namespace {

constexpr double kSecondsBetweenBeats = 1;

// Names of the fields of StepTimes, in the order of Phase.
constexpr const char* kPhaseNames[kNumPhases] = {"data",      "router",        "merge",
                                                 "ffn",       "attention",     "head",
                                                 "optimizer", "communication", "checkpoint"};

}  // namespace

RankHeartbeat::RankHeartbeat(RunDirectory directory, int rank, std::string nonce,
                             std::function<double()> now, int window)
    : directory_(std::move(directory)),
      nonce_(std::move(nonce)),
      now_(std::move(now)),
      window_(window > 0 ? window : 1),
      phase_(kBetweenPhases) {
  beat_.set_rank(rank);
  beat_.set_host(HostName());
  beat_.set_pid(getpid());
  beat_.set_nonce(nonce_);
  beat_.set_blas_core(BlasCoreName());
}

RankHeartbeat::~RankHeartbeat() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  // The training thread, which runs this, would otherwise show its next phases in freed memory.
  ShowPhasesIn(nullptr);
}

void RankHeartbeat::BeatInBackground(std::function<void()> before_beat) {
  before_beat_ = std::move(before_beat);
  thread_ = std::thread([this] { Work(); });
}

void RankHeartbeat::ShowPhases() { ShowPhasesIn(&phase_); }

void RankHeartbeat::SetStep(int64_t step) {
  std::lock_guard lock(mutex_);
  beat_.set_step(step);
}

void RankHeartbeat::CompleteStep(int64_t step, double busy_seconds) {
  std::lock_guard lock(mutex_);
  beat_.set_step(step);
  busy_.push_back(busy_seconds);
  if (busy_.size() > window_) busy_.pop_front();
}

absl::Status RankHeartbeat::Beat(bool always) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    const bool due = !thread_.joinable() && now_() - last_beat_ >= kSecondsBetweenBeats;
    if (!always && !due) return absl::OkStatus();
  }
  return thread_.joinable() ? Tolerate(Write()) : Write();
}

absl::Status RankHeartbeat::Tolerate(absl::Status status) {
  std::lock_guard lock(mutex_);
  failures_ = status.ok() ? 0 : failures_ + 1;
  if (failures_ > kToleratedFailures) failure_ = std::move(status);
  return failure_;
}

v1::Heartbeat RankHeartbeat::Compose() {
  std::lock_guard lock(mutex_);
  last_beat_ = now_();
  beat_.set_time(last_beat_);
  beat_.set_phase(PhaseName());
  // Unset until the window is full: the first steps of an attempt are slower than the others.
  if (busy_.size() == window_) {
    const double sum = std::accumulate(busy_.begin(), busy_.end(), 0.0);
    beat_.set_busy_seconds(sum / static_cast<double>(window_));
  }
  return beat_;
}

// The state is copied under mutex_ and written under file_mutex_ only, so that the training thread
// never waits for a slow file system unless it writes itself.
absl::Status RankHeartbeat::Write() {
  std::lock_guard lock(file_mutex_);
  // First, because it ends a rank of a superseded attempt, which must not write any more.
  before_beat_();
  return directory_.WriteHeartbeat(Compose());
}

std::string RankHeartbeat::PhaseName() const {
  // Relaxed: the phase is only reported, and no other memory depends on it.
  const int phase = phase_.load(std::memory_order_relaxed);
  if (opening_ && phase != static_cast<int>(Phase::kCommunication)) return "opening";
  return phase == kBetweenPhases ? "other" : kPhaseNames[phase];
}

void RankHeartbeat::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    // A lasting error is stored and returned to the training thread by its next Beat.
    Tolerate(Write()).IgnoreError();
    lock.lock();
    wake_.wait_for(lock, std::chrono::duration<double>(kSecondsBetweenBeats),
                   [this] { return ending_; });
  }
}

}  // namespace braid
