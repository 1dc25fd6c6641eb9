// The wall clock as the control plane writes it into files.
#ifndef BRAID_TRAINER_CONTROL_UNIX_TIME_H_
#define BRAID_TRAINER_CONTROL_UNIX_TIME_H_

#include <chrono>

namespace braid {

// Unix seconds.
inline double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_UNIX_TIME_H_
