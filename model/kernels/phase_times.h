// Where the time of a step goes. One clock a thread, read by the thread that
// trains; kernels count whole calls, threads inside a call are not seen.
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

using PhaseSeconds = std::array<double, kNumPhases>;

namespace internal {
inline thread_local PhaseSeconds phase_seconds = {};
inline thread_local std::atomic<int>* shown_phase = nullptr;
}  // namespace internal

inline constexpr int kBetweenPhases = -1;

// From now on `place` has the phase that this thread is in, as a number, or kBetweenPhases: for
// another thread that tells the world. nullptr ends it.
inline void ShowPhasesIn(std::atomic<int>* place) { internal::shown_phase = place; }

// Shows a phase for its own lifetime, without counting its time; then what was shown before.
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

inline void AddPhaseSeconds(Phase phase, double seconds) {
  internal::phase_seconds[static_cast<size_t>(phase)] += seconds;
}

// The seconds of every phase since the last call, and starts again at 0.
inline PhaseSeconds TakePhaseSeconds() {
  const PhaseSeconds spent = internal::phase_seconds;
  internal::phase_seconds = {};
  return spent;
}

// Counts its own lifetime, and shows it. Phases do not nest.
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
