// The delay before the next attempt after failures.
#ifndef BRAID_RETRIEVAL_RETRY_DELAY_H_
#define BRAID_RETRIEVAL_RETRY_DELAY_H_

#include <algorithm>
#include <chrono>

namespace braid {

// Returns 50 ms after the first failure (0), doubling up to 1.6 s.
inline std::chrono::milliseconds RetryDelay(int num_failures) {
  return std::chrono::milliseconds(50 << std::clamp(num_failures, 0, 5));
}

}  // namespace braid

#endif  // BRAID_RETRIEVAL_RETRY_DELAY_H_
