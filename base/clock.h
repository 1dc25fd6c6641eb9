// Clocks: calendar time for records, steady time for durations.
#ifndef BRAID_BASE_CLOCK_H_
#define BRAID_BASE_CLOCK_H_

#include <chrono>
#include <thread>

namespace braid {

// Returns seconds since the Unix epoch.
inline double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns seconds of a clock that never goes back; only differences have a meaning.
inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void SleepSeconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace braid

#endif  // BRAID_BASE_CLOCK_H_
