// Unpredictable bytes and identifiers from the kernel's random number generator.
#ifndef BRAID_BASE_RANDOM_ID_H_
#define BRAID_BASE_RANDOM_ID_H_

#include <cstddef>
#include <string>

namespace braid {

// Returns `count` bytes of getrandom(2): suitable for secrets. Thread-safe.
std::string RandomBytes(size_t count);

// Returns `num_digits` random lower-case hexadecimal digits, 4 random bits each. `num_digits` must
// be even. Thread-safe.
//
//   RandomId(16);  // "9f86d081884c7d65": unique among all processes of all hosts
std::string RandomId(size_t num_digits);

}  // namespace braid

#endif  // BRAID_BASE_RANDOM_ID_H_
