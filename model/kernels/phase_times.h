// The time spent in each phase of a training step. Times are kept per thread and read by the
// training thread; a kernel counts as one call, and its worker threads are not measured.
//
//   { const ScopedPhase phase(Phase::kAttention); ... }
//   const PhaseSeconds spent = TakePhaseSeconds();   // since the last call
#ifndef BRAID_MODEL_KERNELS_PHASE_TIMES_H_
#define BRAID_MODEL_KERNELS_PHASE_TIMES_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace braid {

// The parts of a step that StepTimes (training.proto) reports.
enum class Phase {
  kData,
  kRouter,
  kMerge,
  kFfn,
  kAttention,
  kHead,
  kOptimizer,
  kCommunication,
  kCheckpoint,
};
inline constexpr size_t kNumPhases = 9;

// Seconds by phase.
using PhaseSeconds = std::array<double, kNumPhases>;

namespace internal {
inline thread_local PhaseSeconds phase_seconds = {};
inline thread_local std::atomic<int>* shown_phase = nullptr;
}  // namespace internal

inline constexpr int kBetweenPhases = -1;

// Publishes the current phase of this thread in `place` from now on, as the number of the phase or
// kBetweenPhases, for a thread that reports it (see RankHeartbeat). nullptr ends it.
inline void ShowPhasesIn(std::atomic<int>* place) { internal::shown_phase = place; }

// Publishes a phase during its lifetime without counting its time, then restores the previous one.
class ScopedShownPhase {
 public:
  explicit ScopedShownPhase(Phase phase) {
    if (place_) before_ = place_->exchange(static_cast<int>(phase), std::memory_order_relaxed);
  }
  ScopedShownPhase(const ScopedShownPhase&) = delete;
  ScopedShownPhase& operator=(const ScopedShownPhase&) = delete;
  ~ScopedShownPhase() {
    if (place_) place_->store(before_, std::memory_order_relaxed);
  }

 private:
  std::atomic<int>* const place_ = internal::shown_phase;
  int before_ = kBetweenPhases;
};

// Adds to the time of a phase in this thread.
inline void AddPhaseSeconds(Phase phase, double seconds) {
  internal::phase_seconds[static_cast<size_t>(phase)] += seconds;
}

// Returns the seconds of every phase since the last call and resets them to 0.
inline PhaseSeconds TakePhaseSeconds() {
  const PhaseSeconds spent = internal::phase_seconds;
  internal::phase_seconds = {};
  return spent;
}

// Counts the time of its lifetime for a phase, and publishes the phase. Phases must not nest.
class ScopedPhase {
 public:
  explicit ScopedPhase(Phase phase) : phase_(phase) {}
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;
  ~ScopedPhase() {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    AddPhaseSeconds(phase_, spent.count());
  }

 private:
  const Phase phase_;
  const ScopedShownPhase shown_{phase_};
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_PHASE_TIMES_H_
