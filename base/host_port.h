// Addresses of servers.
#ifndef BRAID_BASE_HOST_PORT_H_
#define BRAID_BASE_HOST_PORT_H_

#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Returns INVALID_ARGUMENT, naming `what`, unless `address` is HOST:PORT with a port from
// `min_port` to 65535.
absl::Status CheckHostPort(std::string_view what, std::string_view address, int min_port = 1);

}  // namespace braid

#endif  // BRAID_BASE_HOST_PORT_H_
