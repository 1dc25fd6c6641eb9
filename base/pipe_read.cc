#include "base/pipe_read.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace braid {

bool ReadAvailable(int descriptor, std::string* bytes) {
  std::array<char, 65536> buffer;
  const ssize_t n = read(descriptor, buffer.data(), buffer.size());
  if (n > 0) bytes->append(buffer.data(), static_cast<size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace braid
