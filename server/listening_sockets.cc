#include "server/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

in_port_t& PortOf(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

// Returns a listening socket, or -1 with errno set.
int Listen(const sockaddr_storage& address, socklen_t length) {
  const int descriptor = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const int on = 1;
  const int off = 0;
  // Connections of an earlier process in TIME_WAIT do not prevent binding; a listener does.
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ss_family == AF_INET6) {
    // Clients that use IPv4 reach [::] whatever net.ipv6.bindv6only says.
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(descriptor, SOMAXCONN) == 0) {
    return descriptor;
  }
  const int error_number = errno;
  close(descriptor);
  errno = error_number;
  return -1;
}

absl::Status ListenError(const std::string& name, int error_number) {
  const std::string what = absl::StrCat("cannot listen at ", name, ": ");
  const std::string host = name.substr(0, name.rfind(':'));
  switch (error_number) {
    case EADDRINUSE:
      return absl::UnavailableError(absl::StrCat(
          what, "the port is in use by another process; stop that one or give another port"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(
          absl::StrCat(what, host,
                       " is not an address of this machine; give one that 'ip address' lists, or "
                       "0.0.0.0 for all"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "ports below 1024 need privileges; give another port"));
    default:
      return absl::UnavailableError(absl::StrCat(what, std::strerror(error_number)));
  }
}

}  // namespace

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept { *this = std::move(other); }

ListeningSockets& ListeningSockets::operator=(ListeningSockets&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(endpoints_, other.endpoints_);
  std::swap(descriptors_, other.descriptors_);
  std::swap(port_, other.port_);
  return *this;
}

void ListeningSockets::Close() {
  for (const int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

absl::StatusOr<ListeningSockets> ListeningSockets::Open(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &list);
  if (code != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen at ", address, ": the host \"",
                                                   host, "\" does not resolve (",
                                                   gai_strerror(code), ")"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  ListeningSockets sockets;
  sockets.name_ = address;
  for (; list != nullptr; list = list->ai_next) {
    Endpoint endpoint = {};
    std::memcpy(&endpoint.address, list->ai_addr, list->ai_addrlen);
    endpoint.length = list->ai_addrlen;
    sockets.endpoints_.push_back(endpoint);
  }
  RETURN_IF_ERROR(sockets.Reopen());
  return sockets;
}

absl::Status ListeningSockets::Reopen() {
  Close();
  int first_error = EADDRNOTAVAIL;  // if every address is skipped below
  for (Endpoint& endpoint : endpoints_) {
    // All addresses get the port of the first one, also when they are bound again.
    if (port_ != 0) PortOf(endpoint.address) = htons(static_cast<uint16_t>(port_));
    const int descriptor = Listen(endpoint.address, endpoint.length);
    // A machine without IPv6 still serves "localhost" on 127.0.0.1.
    if (descriptor < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) continue;
    if (descriptor < 0) {
      first_error = errno;
      Close();
      break;
    }
    descriptors_.push_back(descriptor);
    sockaddr_storage bound = {};
    socklen_t length = sizeof(bound);
    getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length);
    port_ = ntohs(PortOf(bound));
  }
  return descriptors_.empty() ? ListenError(name_, first_error) : absl::OkStatus();
}

int ListeningSockets::Connect() const {
  if (descriptors_.empty()) return -1;
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(descriptors_.front(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return -1;
  }
  // A connection to the wildcard address goes to this machine.
  const int descriptor = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // The result of a non-blocking connect is not known yet; accept() shows whether it arrives.
  if (descriptor >= 0) connect(descriptor, reinterpret_cast<sockaddr*>(&address), length);
  return descriptor;
}

}  // namespace braid
