#include "base/random_id.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace braid {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t filled = 0; filled < count;) {
    const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
    // The call can be interrupted only before the kernel has seeded its generator.
    BRAID_CHECK(got > 0 || errno == EINTR) << "getrandom: " << std::strerror(errno);
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return bytes;
}

std::string RandomId(size_t num_digits) {
  BRAID_CHECK(num_digits % 2 == 0) << num_digits;
  return absl::BytesToHexString(RandomBytes(num_digits / 2));
}

}  // namespace braid
