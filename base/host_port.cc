#include "base/host_port.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace braid {

absl::Status CheckHostPort(std::string_view what, std::string_view address, int min_port) {
  const std::string got =
      absl::StrCat(std::string(what), ": got \"", std::string(address), "\", expected HOST:PORT");
  if (const size_t scheme = address.find("://"); scheme != address.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(got, "; leave out \"", std::string(address.substr(0, scheme + 3)), "\""));
  }
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon != address.npos && colon > 0 &&
      absl::SimpleAtoi(std::string(address.substr(colon + 1)), &port) && port >= min_port &&
      port <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(got, ", for example 127.0.0.1:7077"));
}

}  // namespace braid
